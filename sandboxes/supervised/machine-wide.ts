/** What a machine has one number of for everybody, and how much of it a sandbox may take. */

/** Of 4,096 (`kernel.pty.max`): all of the sandbox's own instance. */
export const MOST_PSEUDO_TERMINALS = 16;

/** Buffers of its sockets, of some hundreds of MiB (`net.ipv4.tcp_mem`, in pages): where they do not count as its memory. */
export const SOCKET_BYTES = 16 << 20;
