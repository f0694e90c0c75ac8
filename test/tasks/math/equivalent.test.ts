/**
 * Hunts answers that mean the same and are told apart, others that are not, and texts that make the comparison slow. Every
 * pair is compared in both orders.
 */

import { expect, test } from 'vitest';
import { equivalent } from '../../../tasks/math/equivalent.ts';

const raw = String.raw;

const SAME: ReadonlyArray<readonly [string, string]> = [
  // Numbers.
  [raw`\frac{1}{2}`, '0.5'],
  [raw`\frac12`, '1/2'],
  [raw`\frac 59`, raw`\dfrac{5}{9}`],
  [raw`-\frac{35}{9}`, raw`\frac{-35}{9}`],
  [raw`3\frac{1}{2}`, '3.5'],
  [raw`.0000672`, raw`6.72\times10^{-5}`],
  [raw`10,\!080`, '10,080'],
  [raw`\$32,\!348`, '32348'],
  [raw`11,\! 111,\! 111,\! 100`, '11111111100'],
  ['12', '12.0'],
  ['12', '012'],
  ['7', '7.'],
  ['2', raw`\boxed{2}`],
  ['1000000', '10^6'],
  ['2^{100}', '1267650600228229401496703205376'],
  [raw`\binom{5}{2}`, '10'],
  ['5!', '120'],
  [raw`\frac{1}{3}`, '0.333333'],
  [raw`0.\overline{3}`, raw`\frac13`],
  [raw`1.2\overline{45}`, raw`\frac{137}{110}`],
  [raw`\sqrt{2}`, '1.41421356'],
  [raw`\sqrt{10^{400}}`, '10^{200}'],
  ['1.2e3', raw`1.2\times10^3`],
  ['3 1/2', '7/2'],
  [raw`-\frac72`, '-3 1/2'],
  ['=5', '5'],
  [raw`\approx 5`, '5;'],
  [raw`5\\`, '5,'],
  [raw`\mathbf{5}`, raw`\textcolor{red}{\underline{5}}`],
  [raw`{2 \over 3}`, raw`\sfrac{2}{3}`],
  // Characters.
  ['１２', '12'],
  ['٣', '３'],
  ['𝟙𝟚', '12'],
  ['½', '0.5'],
  ['x²', 'x**2'],
  ['10⁻³', '0.001'],
  // Units, percent, bases.
  ['90', '90°'],
  ['90', raw`90\degree`],
  ['5', '5 cm³'],
  ['5', raw`5\;\mathrm{cm}^{3}`],
  ['100', '100 km/h'],
  ['10', raw`\text{10 apples}`],
  ['5', raw`5^{\text{th}}`],
  ['5', '5 sq. units'],
  [raw`90^\circ`, '90'],
  [raw`\frac{270}7\text{ degrees}`, raw`\frac{270}{7}^\circ`],
  [raw`5\text{ cm}`, '5 cm'],
  [raw`12 \text{ inches}`, '12 in'],
  [raw`4\text{ units}^2`, '4'],
  [raw`50\%`, '50'],
  [raw`50\%`, raw`\frac12`],
  ['10', raw`10\%`],
  ['52_8', '52'],
  ['4210_{5}', '4210_5'],
  // Roots, constants, complex numbers.
  [raw`11\sqrt2`, raw`\sqrt{242}`],
  [raw`\frac{\sqrt{3}}{3}`, raw`\frac{1}{\sqrt{3}}`],
  [raw`\sqrt[3]{-8}`, '-2'],
  [raw`288 \pi`, raw`288\pi`],
  ['6 - 5i', '-5i+6'],
  ['i', raw`\sqrt{-1}`],
  [raw`\log_2 8`, '3'],
  [raw`\tan^{-1} 1`, raw`\frac{\pi}{4}`],
  // Algebra.
  ['p - q', '-(q-p)'],
  ['2k+2', '2(k+1)'],
  ['(a+5)(b+2)', 'ab+2a+5b+10'],
  ['x^5 - x^4 + x^3 - x^2 + x - 1', '(x-1)(x^4+x^2+1)'],
  [raw`\cot x`, raw`\frac{\cos x}{\sin x}`],
  [raw`\sin^2 x`, raw`1-\cos^2 x`],
  ['e^{2x}', '(e^x)^2'],
  ['|x-3|', '|3-x|'],
  ['x_1+x_2', 'x_2 + x_{1}'],
  ['(a+b)^{10}', '(b+a)^{10}'],
  // Several values.
  ['1,-2', '-2, 1'],
  ['1,-2', raw`x=-2 \text{ or } x=1`],
  ['3, 5, 7', raw`3,5, \text{ and } 7`],
  [raw`1 \pm \sqrt{19}`, raw`1+\sqrt{19}, 1-\sqrt{19}`],
  [raw`\{1,2,3\}`, raw`\{3,1,2\}`],
  [raw`\left( 3, \frac{\pi}{2} \right)`, raw`(3,\pi/2)`],
  [raw`\emptyset`, raw`\{\}`],
  ['(x,y)=(1,2)', '(1,2)'],
  // Intervals and inequalities.
  ['(3,4]', raw`3 < x \le 4`],
  ['(3,4]', raw`x \in (3, 4]`],
  [raw`(2,\infty)`, 'x>2'],
  [raw`x \geq 3`, raw`3 \le x`],
  [raw`(-\infty,1)\cup(2,3]`, raw`(2,3]\cup(-\infty,1)`],
  // Equations.
  ['x=5', '5'],
  ['5x - 7y + 11z + 4 = 0', '-5x+7y-11z-4=0'],
  ['y=2x+3', '2x - y + 3 = 0'],
  ['f(x)=x^2+1', 'x^2+1'],
  ['5', 'x = 2+3 = 5'],
  // Matrices.
  [raw`\begin{pmatrix} -1/3 \\ 2/3 \end{pmatrix}`, raw`\begin{bmatrix} -\frac13 \\ \frac23 \end{bmatrix}`],
  // Words.
  [raw`\text{(C)}`, 'C'],
  [raw`\text{Evelyn}`, 'evelyn'],
  [raw`\text{yes}`, 'Yes'],
  [raw`\text{June 20}`, 'June 20'],
  // What is too large for a value is compared by its form.
  [raw`\((3+\sqrt{3})^{2016}\)`, raw`(3+\sqrt{3})^{2016}`],
];

test.each(SAME)('%s is %s', (gold, said) => {
  expect([equivalent(gold, said), equivalent(said, gold)]).toEqual([true, true]);
});

const DIFFERENT: ReadonlyArray<readonly [string, string]> = [
  ['1', '-1'],
  ['0.5', '0.05'],
  [raw`\frac12`, raw`\frac13`],
  [raw`\frac13`, '0.333'],
  [raw`\sqrt2`, '1.41'],
  [raw`\sqrt{2}`, '1.41421357'],
  ['e', '2.718'],
  ['0', raw`0.\overline{3}`],
  [raw`\frac{3}{10}`, raw`0.\overline{3}`],
  [raw`\text{June 20}`, 'June 21'],
  ['(x,y)=(1,2)', '(2,1)'],
  ['10^{20}', '10^{20}+1'],
  ['10^{400}', '10^{500}'],
  ['10^{-400}', '0'],
  ['0', '10^{-13}'],
  [raw`\infty`, '10^{1000}'],
  [raw`\infty`, raw`-\infty`],
  [raw`\frac{1}{0}`, raw`\frac{2}{0}`],
  ['1,234', '1234.5'],
  [raw`50\%`, '5'],
  [raw`5\text{ cm}`, raw`5\text{ m}`],
  ['52_8', '52_9'],
  ['52_8', '42'],
  ['x', 'y'],
  ['x', '-x'],
  [raw`\sqrt{x^2}`, 'x'],
  [raw`\sin x`, 'x'],
  ['p - q', 'pq'],
  ['a,b', 'ab'],
  ['f(x)', "f'(x)"],
  ['1,-2', '1,2'],
  ['12', '1,-2'],
  ['1', '1,1'],
  ['7', '7 or 8'],
  ['7', raw`\text{7 or 8}`],
  [raw`\{1,2\}`, raw`\{1,2,3\}`],
  ['(1,2)', '(2,1)'],
  ['(1,2)', '[1,2]'],
  ['(1,2]', '(1,2)'],
  ['(1,2)', '12'],
  ['x>2', 'x<2'],
  ['x>2', raw`x\ge2`],
  ['x>2', 'y>2'],
  ['x=5', 'y=5'],
  ['x=5', 'x=-5'],
  ['y=2x+3', 'y=2x-3'],
  ['x+1', 'x+1=0'],
  ['100', 'x=100x'],
  ['5', 'x=4=5'],
  ['5', '5=6'],
  ['3:4', '4:3'],
  [raw`\begin{pmatrix}1\\2\end{pmatrix}`, raw`\begin{pmatrix}1&2\end{pmatrix}`],
  [raw`\text{(C)}`, 'D'],
  ['AB', 'BA'],
  [raw`\text{no}`, 'on'],
  ['1', ''],
  ['2', 'x²'],
  ['2', '²'],
  ['3', '3 1/2'],
  ['1', '1e3'],
  ['5', '=6'],
  ['5', raw`5 + 0x + \text{hack}`],
];

test.each(DIFFERENT)('%s is not %s', (gold, said) => {
  expect([equivalent(gold, said), equivalent(said, gold)]).toEqual([false, false]);
});

test('no text makes it throw, or agree with another answer', () => {
  const hostile = [
    ...['(', '{', '|', '-', '!', '$', raw`\left`, raw`\frac`, raw`\{`, '[', ']', raw`\text{`].map((part) =>
      part.repeat(400),
    ),
    `${'1+'.repeat(999)}1`,
    `${'x^'.repeat(900)}x`,
    `${'9^'.repeat(900)}9`,
    '9'.repeat(2000),
    '(1+x)^{64}'.repeat(190),
    raw`\binom{999}{499}`.repeat(100),
    `5${'!'.repeat(1990)}`,
    `${raw`\sqrt{`.repeat(300)}2${'}'.repeat(300)}`,
    Array.from({ length: 300 }, (_, n) => `x_{${n}}`).join('+'),
    '((1,2),(3,4)),'.repeat(140),
    raw`\pm 1`.repeat(400),
    raw`\begin{matrix}`.repeat(100),
    'y'.repeat(1_000_000),
    // More than a double holds.
    raw`\sqrt{10^{401}}`,
    raw`\sqrt[3]{200!}`,
    raw`\sqrt{\frac{1}{10^{401}}}`,
  ];
  const golds = ['5', 'x^2+1', '(1,2)', '1,2,3', raw`\infty`];
  const agreed = hostile.flatMap((text) => golds.filter((gold) => equivalent(gold, text)));
  expect(agreed).toEqual([]);
});
