/** Returns the keys of the partials that these sources render, such as `partial/footer`. */
export function partialsIn(texts: readonly string[]): string[] {
	const rendered = /\{%-?\s*render\s+["']([\w-]+)["']/g;
	const keys = texts.flatMap(text => [...text.matchAll(rendered)].map(([, name = '']) => `partial/${name}`));
	return [...new Set(keys)];
}

/** Returns the keys of a template's layout (`null` if it has none) and of the partials that its sources render. */
export function layoutUses(layout: string | null, texts: readonly string[]): string[] {
	return [...(layout === null ? [] : [`layout/${layout}`]), ...partialsIn(texts)];
}
