/** A thread in the engine's place that cannot start. */

throw new Error('no TensorFlow here');
