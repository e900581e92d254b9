const known = new Map(
	Object.entries({amp: '&', AMP: '&', lt: '<', LT: '<', gt: '>', GT: '>', quot: '"', QUOT: '"', apos: "'"}),
);

/** Names that browsers take for a character even without a semicolon (HTML Standard §13.5). */
const withoutSemicolon = new Set(
	`AElig AMP Aacute Acirc Agrave Aring Atilde Auml COPY Ccedil ETH Eacute Ecirc Egrave Euml GT Iacute Icirc Igrave Iuml LT
	Ntilde Oacute Ocirc Ograve Oslash Otilde Ouml QUOT REG THORN Uacute Ucirc Ugrave Uuml Yacute aacute acirc acute aelig
	agrave amp aring atilde auml brvbar ccedil cedil cent copy curren deg divide eacute ecirc egrave eth euml frac12 frac14
	frac34 gt iacute icirc iexcl igrave iquest iuml laquo lt macr micro middot nbsp not ntilde oacute ocirc ograve ordf ordm
	oslash otilde ouml para plusmn pound quot raquo reg sect shy sup1 sup2 sup3 szlig thorn times uacute ucirc ugrave uml
	uuml yacute yen yuml`.split(/\s+/),
);

const reference = /&(?:#[xX]([0-9a-fA-F]+);?|#([0-9]+);?|([a-zA-Z][a-zA-Z0-9]*)(;|=)?)/g;

/**
 * What an attribute's value says, its character references read as browsers read them (HTML Standard §13.2.5.72). Null
 * where one stands for something that a URL hardly holds, such as `&eacute;`: it is not known here.
 */
export function readAttribute(value: string): string | null {
	if (!value.includes('&')) {
		return value;
	}
	let isKnown = true;
	const text = value.replace(reference, (whole, hex?: string, decimal?: string, name?: string, after?: string) => {
		// Before `=`, a name is that of the next query parameter.
		if (name !== undefined && after !== ';' && (after === '=' || !withoutSemicolon.has(name))) {
			return whole;
		}
		const character = name === undefined ? characterOf(hex, decimal) : known.get(name);
		isKnown &&= character !== undefined;
		return character ?? '';
	});
	return isKnown ? text : null;
}

/** Undefined for what browsers read otherwise: 128 to 159 by an old table, what is no character as U+FFFD. */
function characterOf(hex: string | undefined, decimal: string | undefined): string | undefined {
	const code = hex === undefined ? Number(decimal) : Number.parseInt(hex, 16);
	const isPlain = (code > 0 && code < 0x80) || (code >= 0xa0 && code < 0xd800);
	return isPlain ? String.fromCharCode(code) : undefined;
}

const escapes: Readonly<Record<string, string>> = {'&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;'};

/** The text as an attribute's value, in quotes of either kind or, if it has no space, in none. */
export function writeAttribute(text: string): string {
	return text.replace(/[&<>"']/g, character => escapes[character] as string);
}
