/**
 * A host counts a connection until it has come round to its end: a new one at that moment would be one too many there, and
 * be refused. So long after its end, in milliseconds, a connection is taken for gone.
 */
export const goneMs = 50;
