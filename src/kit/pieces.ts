/** What a template says in every mail: the same object each time, so that what is made of it can be kept. */
export type Constant = {readonly text: string};

/** A text, in pieces. */
export type Pieces = ReadonlyArray<string | Constant>;

const shortest = 64;
const halfPair = /^[\udc00-\udfff]|[\ud800-\udbff]$/;

/** The text as a constant where keeping pays, else as it is. A constant never holds half of a surrogate pair at its ends. */
export function constantOf(text: string): string | Constant {
	return text.length < shortest || halfPair.test(text) ? text : {text};
}

export function joined(pieces: Pieces): string {
	return pieces.map(piece => (typeof piece === 'string' ? piece : piece.text)).join('');
}
