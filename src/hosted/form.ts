import {readMultipart} from './multipart.ts';

/** The fields of a form that count here; absent ones are null. What else it has is of no interest. */
export type Form = {
	readonly token: string | null;
	readonly action: string | null;
};

export const formTypes = ['application/x-www-form-urlencoded', 'multipart/form-data'] as const;

/** A longer body is no form of ours, nor a one-click request. */
export const formLimit = 8 * 1024;

/**
 * Reads a submitted form of one of `formTypes`; the first of fields of one name counts. One that cannot be read counts as
 * empty: what a mail provider posts says no more than the URL that it posts to (RFC 8058 §3.1), and must unsubscribe
 * however it spells that.
 */
export function readForm(body: Uint8Array, contentType: string): Form {
	const text = new TextDecoder().decode(body);
	if (!/^\s*multipart\//i.test(contentType)) {
		const fields = new URLSearchParams(text);
		return {token: fields.get('token'), action: fields.get('action')};
	}
	const fields = readMultipart(text, contentType) ?? [];
	const textOf = (name: string) => {
		const field = fields.find(one => one.name === name);
		// A file is no text: it counts as a text that fits nothing.
		return field === undefined ? null : (field.value ?? '');
	};
	return {token: textOf('token'), action: textOf('action')};
}
