import {LRUCache} from 'lru-cache';

/** Returns the canonical spelling of a BCP 47 language tag, or `null` if it is invalid. */
export function validLocale(text: string): string | null {
	try {
		return Intl.getCanonicalLocales(text)[0] ?? null;
	} catch {
		return null;
	}
}

/**
 * Whether a text is the name of a time zone that Intl supports, including `EST`, `Japan` and `GB`. Offsets and ICU's
 * `SystemV/…` are not accepted. `Intl.supportedValuesOf('timeZone')` is not used, because it lacks `UTC` and
 * `Asia/Kolkata` on Node 20.
 */
export function isValidTimezone(text: string): boolean {
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
 * Yields a tag and its parents by truncation, as in the lookup of RFC 4647 §3.4: `zh-Hant-TW`, `zh-Hant`, `zh`. With
 * `usesScripts`, the tags that it implies precede the language: `zh-TW`, `zh-Hant-TW`, `zh-Hant`, `zh`.
 */
function* lookupChain(locale: string, usesScripts: boolean): Generator<string> {
	let tag = locale.toLowerCase();
	while (tag !== '') {
		if (usesScripts && !tag.includes('-')) {
			yield* impliedTags(locale);
		}
		yield tag;
		// A single letter (`-u-`, `-x-`) only introduces the next subtag and is removed with it.
		tag = tag.slice(0, Math.max(0, tag.lastIndexOf('-'))).replace(/-[a-z0-9]$/, '');
	}
}

/** A cache, because computing the implied tags takes about 20 µs. */
const impliedTagsCache = new LRUCache<string, readonly string[]>({max: 500});

/** Returns the implied tags. For both `zh-TW` and `zh-Hant`, they are `zh-hant-tw`, `zh-tw` and `zh-hant`. */
function impliedTags(locale: string): readonly string[] {
	let tags = impliedTagsCache.get(locale);
	if (!tags) {
		const {language, script, region} = maximize(locale) ?? {};
		const short = `${language}-${region}`;
		const long = `${language}-${script}`;
		const impliesScript = region !== undefined && maximize(short)?.script === script;
		const ordered = script === undefined ? [] : [`${long}-${region}`, ...(impliesScript ? [short] : []), long];
		tags = ordered.map(tag => tag.toLowerCase());
		impliedTagsCache.set(locale, tags);
	}
	return tags;
}

function maximize(text: string): Intl.Locale | null {
	const locale = validLocale(text);
	return locale === null ? null : new Intl.Locale(locale).maximize();
}

const hasScript = (locale: string | null): boolean => locale !== null && /-[a-z]{4}(?:-|$)/i.test(locale);

/** Returns the language of a message: the recipient's, unless the variant is in another language. */
export function mailLocale(variant: string | null, locale: string): string {
	if (variant === null || variant === locale || locale.startsWith(`${variant}-`)) {
		return locale;
	}
	const chain = lookupChain(locale, hasScript(variant) || hasScript(locale));
	return [...chain].includes(variant.toLowerCase()) ? locale : variant;
}

/**
 * Chooses the variant of a template for a recipient: by the locale and its parents, the workspace's locale and its
 * parents, and `en`. Falls back to the default variant, then to the first. Returns `undefined` only without variants.
 */
export function chooseVariant<Variant extends {readonly locale: string | null}>(
	variants: readonly Variant[],
	locale: string,
	workspaceLocale: string | null,
): Variant | undefined {
	const usesScripts = variants.some(variant => hasScript(variant.locale));
	for (const requested of [locale, workspaceLocale ?? '', 'en']) {
		for (const tag of lookupChain(requested, usesScripts || hasScript(requested))) {
			const match = variants.find(variant => variant.locale?.toLowerCase() === tag);
			if (match) {
				return match;
			}
		}
	}

	return variants.find(variant => variant.locale === null) ?? variants[0];
}
