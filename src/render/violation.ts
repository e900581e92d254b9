/** What is wrong with a template and where: lines and columns count from 1. */
export type Violation = {
	/** `subject`, `mjml`, `html` or `text`: the field that the author wrote. */
	readonly field: string;
	readonly message: string;
	readonly line: number;
	readonly column: number;
};

/** The line and column of an offset, both from 1. */
export function positionAt(text: string, offset: number): {line: number; column: number} {
	const before = text.slice(0, offset);
	return {line: before.split('\n').length, column: offset - before.lastIndexOf('\n')};
}
