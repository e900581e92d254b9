import type {Shielded} from './liquid-source.ts';

/**
 * Adds the filter `safe_url` to every output with which the value of a URL attribute begins, so that data cannot put
 * `javascript:` into a link. An output later in the value cannot set the scheme and stays as it is.
 */
export function guardUrls({text, tokens, pattern, restore}: Shielded): string {
	const word = pattern.source;
	const urlStart = new RegExp(
		`(\\s(?:href|src|action|formaction|background|poster|xlink:href)\\s*=\\s*(?:["']\\s*)?)((?:${word}\\s*)+)`,
		'gi',
	);
	return restore(
		text.replace(urlStart, (_, before: string, words: string) => {
			let begun = false;
			const guarded = words.replace(pattern, (placeholder, index) => {
				const token = tokens[Number(index)];
				if (!token || token.kind === 'tag') {
					// The other branch of a condition begins the value anew.
					begun &&= !(token && ['else', 'elsif', 'when'].includes(token.name));
					return placeholder;
				}
				const first = !begun;
				begun = true;
				return first ? token.text.replace(/\s*(-?\}\})$/, ' | safe_url $1') : placeholder;
			});
			return before + guarded;
		}),
	);
}
