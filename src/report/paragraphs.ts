const introduction = /(?:response|error|reason|answer|reply|said|returned|was)\b[^\n]{0,80}:[ \t]*$/i;
/** What the sender wrote himself, quoted. */
const quotedHeader = /^[ \t]*(?:subject|message-id|date)[ \t]*:/im;

/**
 * The paragraphs that speak of one recipient, with what they introduce. `only`: there is no other, so that what was answered
 * is about it wherever it stands.
 */
export function paragraphsOn(address: string | null, text: string, only: boolean): string {
	const paragraphs = text.split(/\n[ \t]*(?:\n[ \t]*)+/);
	const isAbout = (paragraph: string) => address !== null && names(paragraph, address);
	const chosen = paragraphs.filter((paragraph, index) => {
		const before = paragraphs[index - 1] ?? '';
		const follows = introduction.test(before) && (only || isAbout(before));
		return (
			(isAbout(paragraph) || follows || (only && introduction.test(firstLine(paragraph)))) &&
			!quotedHeader.test(paragraph)
		);
	});
	return chosen.join('\n').slice(0, 4096);
}

function firstLine(text: string): string {
	return text.split('\n', 1)[0] ?? '';
}

function names(paragraph: string, address: string): boolean {
	return paragraph.toLowerCase().includes(address.toLowerCase());
}
