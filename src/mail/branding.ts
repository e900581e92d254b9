import {parseAddress, parseDomain} from './address.ts';

/** The look of a workspace's hosted pages; null: the default look. */
export type Branding = {
	/** Instead of the workspace's name. */
	readonly name: string | null;
	/** An https URL of an image. */
	readonly logoUrl: string | null;
	/** `#rrggbb`, lower case. */
	readonly accent: string | null;
	/** Where recipients may write to. */
	readonly supportEmail: string | null;
};

const maxUrlLength = 1000;

/** The URL as it is stored, or null where it is no https URL with a full domain name. */
export function validLogoUrl(text: string): string | null {
	if (text.length > maxUrlLength || !URL.canParse(text)) {
		return null;
	}
	const {protocol, username, password, hostname, href} = new URL(text);
	// Its origin goes into a Content-Security-Policy: a host of letters, digits, hyphens and dots cannot say more
	// there.
	const sound = protocol === 'https:' && username === '' && password === '' && parseDomain(hostname) !== null;
	return sound ? href : null;
}

/** `#rrggbb` in lower case, or null. */
export function validAccent(text: string): string | null {
	return /^#[0-9a-f]{6}$/i.test(text) ? text.toLowerCase() : null;
}

/** The JSON text of the store. */
export function writeBranding({name, logoUrl, accent, supportEmail}: Branding): string | null {
	const kept = Object.entries({name, logo_url: logoUrl, accent, support_email: supportEmail}).filter(
		([, value]) => value !== null,
	);
	return kept.length === 0 ? null : JSON.stringify(Object.fromEntries(kept));
}

/** Reads what the store has; what would not be taken today counts as not there. */
export function readBranding(json: string | null): Branding {
	const {name, logo_url: logoUrl, accent, support_email: supportEmail} = JSON.parse(json ?? '{}');
	return {
		name: name ?? null,
		logoUrl: validLogoUrl(logoUrl ?? ''),
		accent: validAccent(accent ?? ''),
		supportEmail: parseAddress(supportEmail ?? '', {utf8Local: false}).ok ? supportEmail : null,
	};
}
