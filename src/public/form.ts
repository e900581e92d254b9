/** The fields of a form that count here; absent ones are null. What else it has is of no interest. */
export type Form = {
	readonly token: string | null;
	readonly action: string | null;
};

export const formTypes = ['application/x-www-form-urlencoded', 'multipart/form-data'] as const;

/** A longer body is no form of ours, nor a one-click request. */
export const formLimit = 8 * 1024;

const none: Form = {token: null, action: null};

/**
 * Reads a submitted form, by the platform's own parser. One that cannot be read counts as empty: what a mail provider
 * posts says no more than the URL that it posts to (RFC 8058 §3.1), and must unsubscribe however it spells that.
 */
export async function readForm(body: Uint8Array, contentType: string): Promise<Form> {
	if (body.length === 0) {
		return none;
	}
	try {
		const fields = await new Response(body, {headers: {'content-type': contentType}}).formData();
		return {token: textOf(fields.get('token')), action: textOf(fields.get('action'))};
	} catch {
		return none;
	}
}

// A file is no text: it counts as a text that fits nothing.
function textOf(value: ReturnType<FormData['get']>): string | null {
	return value === null || typeof value === 'string' ? value : '';
}
