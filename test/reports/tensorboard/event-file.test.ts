/** Hunts event files that TensorBoard would refuse. The records are from TensorBoard's own protobufs and CRC (2.21). */
import { expect, it } from 'vitest';
import { crc32c, tfRecord, scalarEvent, versionEvent } from '../../../reports/tensorboard/event-file.ts';

const range = Array.from({ length: 32 }, (_, i) => i);

it.each([
  ['32 bytes of zero', Array(32).fill(0), 0x8a9136aa],
  ['32 bytes of 0xff', Array(32).fill(0xff), 0x62a8ab43],
  ['32 bytes counting up', range, 0x46dd794e],
  ['32 bytes counting down', range.toReversed(), 0x113fdb5c],
  [
    'an iSCSI SCSI Read (10) command',
    [
      0x01, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x14, 0, 0, 0, 0, 0, 0x04, 0, 0, 0, 0, 0x14, 0, 0, 0, 0x18,
      0x28, 0, 0, 0, 0, 0, 0, 0, 0x02, 0, 0, 0, 0, 0, 0, 0,
    ],
    0xd9963a56,
  ],
  ['the check value of the catalogue', [...Buffer.from('123456789')], 0xe3069283],
  ['nothing', [], 0],
])('CRC-32C of %s (RFC 3720, appendix B.4)', (_, bytes: number[], expected) => {
  expect(crc32c(Uint8Array.from(bytes))).toBe(expected);
});

it('writes the first record of every file', () => {
  expect(tfRecord(versionEvent(1767225600)).toString('hex')).toBe(
    '1800000000000000a37f4b2209000000406e55da411a0d627261696e2e4576656e743a32c3486dfc',
  );
});

it('writes several scalars of one step into one record', () => {
  const event = scalarEvent({
    wallTime: 1767225660.5,
    step: 300,
    scalars: [
      ['reward/mean', 0.25],
      ['policy/loss', -1.5],
    ],
  });
  expect(tfRecord(event).toString('hex')).toBe(
    '36000000000000004f578cef090000204f6e55da4110ac022a280a120a0b7265776172642f6d65616e150000803e' +
      '0a120a0b706f6c6963792f6c6f7373150000c0bfd899081e',
  );
});

it('writes a value of 0 at step 0', () => {
  const event = scalarEvent({ wallTime: 1767225600, step: 0, scalars: [['eval/pass_rate', 0]] });
  expect(tfRecord(event).toString('hex')).toBe(
    '220000000000000078113dfd09000000406e55da412a170a150a0e6576616c2f706173735f726174651500000000418220de',
  );
});
