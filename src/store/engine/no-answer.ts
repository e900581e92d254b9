/** The server did not answer: whether it did what it was asked is not known. The code is the one of TCP. */
export class NoAnswerError extends Error {
	override readonly name = 'NoAnswerError';
	readonly code = 'ETIMEDOUT';
}
