import type {Shielded} from './liquid-source.ts';

const styleAttribute = /(\sstyle\s*=\s*)(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))/gi;

/**
 * Replaces each style attribute whose Liquid produces more than values, such as `style="{{ st }}"`, with a placeholder
 * declaration. MJML parses these attributes to inline styles, and would drop anything that is not a declaration.
 * `restore` puts the attributes back.
 *
 * @param text MJML with its Liquid shielded
 */
export function hideStyles(
	text: string,
	{pattern, tokens}: Pick<Shielded, 'pattern' | 'tokens'>,
): {readonly text: string; readonly restore: (html: string) => string} {
	const hidden: string[] = [];
	const placeholder = (index: number | string) => pattern.source.replace('(\\d+)e', `${index}style`);
	const beforeColon = new RegExp(`${pattern.source}[^;:]*:`);
	const isDeclaration = (part: string) => part.includes(':') && !beforeColon.test(part);
	const producesMore = (style: string) =>
		[...style.matchAll(pattern)].some(([, index]) => tokens[Number(index)]?.kind === 'tag') ||
		style.split(';').some(part => part.search(pattern) !== -1 && !isDeclaration(part));

	const replaced = text.replace(
		styleAttribute,
		(match, before: string, double?: string, single?: string, bare = '') => {
			const style: string = double ?? single ?? bare;
			if (!producesMore(style)) {
				return match;
			}
			hidden.push(style.replaceAll('"', '&quot;'));
			const quote = bare === '' ? '"' : '';
			// Line breaks are preserved, so that violations keep their line numbers.
			const lines = '\n'.repeat(style.split('\n').length - 1);
			return `${before}${quote}${placeholder(hidden.length - 1)}:0${lines}${quote}`;
		},
	);
	const declaration = new RegExp(`${placeholder('(\\d+)')}:\\s*0;?`, 'g');
	return {
		text: replaced,
		restore: html => html.replace(declaration, (_, index) => hidden[Number(index)] as string),
	};
}
