/** Longer patterns are refused: no reply needs them. */
export const longestPattern = 200;

/**
 * A pattern of the destinations file: text that stands anywhere in a reply, whatever its case; `*` is anything between.
 * What comes back matches in time linear in the reply: it is anchored, and each part is looked for once, from where the one
 * before it ended, in a lookahead that the engine never enters again.
 */
export function replyPattern(text: string): RegExp {
	const parts = text.split('*').filter(part => part !== '');
	const sought = parts.map((part, index) => `(?=([^]*?${escaped(part)}))\\${index + 1}`);
	return new RegExp(`^${sought.join('')}`, 'i');
}

function escaped(text: string): string {
	return text.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&');
}

/** The pattern that `replyPattern` was made of, runs of `*` as one. */
export function patternText({source}: RegExp): string {
	const parts = [...source.matchAll(/\(\?=\(\[\^\]\*\?((?:\\.|[^\\)])*)\)\)/g)];
	return parts.map(([, part = '']) => part.replace(/\\(.)/g, '$1')).join('*');
}
