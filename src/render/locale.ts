import {LRUCache} from 'lru-cache';

/** The canonical spelling of a BCP 47 language tag, or null if it is invalid. */
export function validLocale(text: string): string | null {
	try {
		return Intl.getCanonicalLocales(text)[0] ?? null;
	} catch {
		return null;
	}
}

/**
 * Whether the text is the name of a time zone that Intl knows, as date filters accept it: also `EST`, `Japan` and `GB`.
 * Offsets and the `SystemV/…` of ICU are not accepted. `Intl.supportedValuesOf('timeZone')` cannot decide: it lacks
 * `UTC` and `Asia/Kolkata` on Node 20.
 */
export function validTimezone(text: string): boolean {
	if (!/^[A-Za-z][A-Za-z0-9_+-]*(?:\/[A-Za-z0-9_+-]+){0,2}$/.test(text) || /^systemv\//i.test(text)) {
		return false;
	}

	try {
		new Intl.DateTimeFormat('en', {timeZone: text});
		return true;
	} catch {
		return false;
	}
}

/**
 * The tag and its parents by truncation, as a lookup of RFC 4647 §3.4 has them: `zh-Hant-TW`, `zh-Hant`, `zh`. With
 * scripts, those that the tag implies stand before the language: `zh-TW`, `zh-Hant-TW`, `zh-Hant`, `zh`.
 */
function* lookupChain(locale: string, scripts: boolean): Generator<string> {
	let tag = locale.toLowerCase();
	while (tag !== '') {
		if (scripts && !tag.includes('-')) {
			yield* impliedTags(locale);
		}
		yield tag;
		// A lone letter (`-u-`, `-x-`) only introduces what follows it and goes with it.
		tag = tag.slice(0, Math.max(0, tag.lastIndexOf('-'))).replace(/-[a-z0-9]$/, '');
	}
}

/** Reading what a tag implies takes some 20 µs. */
const implied = new LRUCache<string, readonly string[]>({max: 500});

/** Of `zh-TW` and `zh-Hant`: `zh-hant-tw`, `zh-tw`, `zh-hant`. */
function impliedTags(locale: string): readonly string[] {
	let tags = implied.get(locale);
	if (!tags) {
		const {language, script, region} = maximal(locale) ?? {};
		const short = `${language}-${region}`;
		const long = `${language}-${script}`;
		const isShort = region !== undefined && maximal(short)?.script === script;
		const all = script === undefined ? [] : [`${long}-${region}`, ...(isShort ? [short] : []), long];
		tags = all.map(tag => tag.toLowerCase());
		implied.set(locale, tags);
	}
	return tags;
}

function maximal(text: string): Intl.Locale | null {
	const locale = validLocale(text);
	return locale === null ? null : new Intl.Locale(locale).maximize();
}

const hasScript = (locale: string | null): boolean => locale !== null && /-[a-z]{4}(?:-|$)/i.test(locale);

/** The language of a mail: the recipient's, unless the variant is in another one. */
export function mailLocale(variant: string | null, locale: string): string {
	if (variant === null || variant === locale || locale.startsWith(`${variant}-`)) {
		return locale;
	}
	const chain = lookupChain(locale, hasScript(variant) || hasScript(locale));
	return [...chain].includes(variant.toLowerCase()) ? locale : variant;
}

/**
 * Chooses the variant of a template for a recipient: the locale, its parents, the workspace's default and its parents,
 * `en`, then the default variant (locale null), then the first. Undefined only where there are no variants.
 */
export function chooseVariant<Variant extends {readonly locale: string | null}>(
	variants: readonly Variant[],
	locale: string,
	workspaceLocale: string | null,
): Variant | undefined {
	const scripts = variants.some(variant => hasScript(variant.locale));
	for (const wanted of [locale, workspaceLocale ?? '', 'en']) {
		for (const tag of lookupChain(wanted, scripts || hasScript(wanted))) {
			const found = variants.find(variant => variant.locale?.toLowerCase() === tag);
			if (found) {
				return found;
			}
		}
	}

	return variants.find(variant => variant.locale === null) ?? variants[0];
}
