/** A thread instead of the engine's that cannot start. */

throw new Error('no TensorFlow here');
