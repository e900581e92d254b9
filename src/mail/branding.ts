import {parseAddress, parseDomain} from './address.ts';

/** The appearance of a workspace's hosted pages. `null` stands for the default. */
type Branding = {
	/** Shown instead of the workspace's name. */
	readonly name: string | null;
	/** The https URL of an image. */
	readonly logo_url: string | null;
	/** `#rrggbb`, lower case. */
	readonly accent: string | null;
	/** The address that recipients may write to. */
	readonly support_email: string | null;
};

const maxUrlLength = 1000;

/** Returns the URL as it is stored, or `null` if it is not an https URL with a full domain name. */
export function validLogoUrl(text: string): string | null {
	if (text.length > maxUrlLength || !URL.canParse(text)) {
		return null;
	}
	const {protocol, username, password, hostname, href} = new URL(text);
	// The origin becomes part of a Content-Security-Policy. A host of letters, digits, hyphens and dots cannot inject
	// anything into it.
	const isValid = protocol === 'https:' && username === '' && password === '' && parseDomain(hostname) !== null;
	return isValid ? href : null;
}

/** Returns `#rrggbb` in lower case, or `null`. */
export function validAccent(text: string): string | null {
	return /^#[0-9a-f]{6}$/i.test(text) ? text.toLowerCase() : null;
}

/** Returns the JSON text for the store. */
export function writeBranding(branding: Branding): string | null {
	const entries = Object.entries(branding).filter(([, value]) => value !== null);
	return entries.length === 0 ? null : JSON.stringify(Object.fromEntries(entries));
}

/** Parses the stored branding. Values that would be rejected today count as missing. */
export function readBranding(json: string | null): Branding {
	const {name, logo_url, accent, support_email} = JSON.parse(json ?? '{}');
	return {
		name: name ?? null,
		logo_url: validLogoUrl(logo_url ?? ''),
		accent: validAccent(accent ?? ''),
		support_email: parseAddress(support_email ?? '', {allowsUtf8Local: false}).ok ? support_email : null,
	};
}
