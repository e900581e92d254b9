import {LRUCache} from 'lru-cache';

type Formatter = Intl.NumberFormat | Intl.DateTimeFormat;

/** An Intl formatter costs some 50 µs to make and 1 µs to use, so the last ones used are kept. */
const formatters = new LRUCache<string, {readonly made: Formatter | null}>({max: 500});

/** The formatter of a key; null: Intl does not know the locale, the currency or the zone. */
function kept<T extends Formatter>(key: string, make: () => T): T | null {
	let entry = formatters.get(key);
	if (!entry) {
		entry = {made: madeOrNull(make)};
		formatters.set(key, entry);
	}
	return entry.made as T | null;
}

function madeOrNull<T>(make: () => T): T | null {
	try {
		return make();
	} catch (error) {
		if (error instanceof RangeError) {
			return null;
		}
		throw error;
	}
}

export function currencyFormat(locale: string, currency: string): Intl.NumberFormat | null {
	return kept(
		`${locale}\n${currency}`,
		() =>
			// An amount that rounds to zero has no sign.
			new Intl.NumberFormat(locale, {style: 'currency', currency, signDisplay: 'negative'}),
	);
}

/** `options` in the same order each time. */
export function dateFormat(locale: string, options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat | null {
	return kept(`${locale}\n${JSON.stringify(options)}`, () => new Intl.DateTimeFormat(locale, options));
}
