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

/** A field of a form; one that came as a file has no value. */
export type Field = {readonly name: string; readonly value: string | null};

/**
 * The fields of a multipart/form-data body (RFC 7578), in their order; null if the type names no boundary. Reads what HTTP
 * clients and hand-written requests send: any boundary that is in use, also one that stands in a value; a preamble; names
 * without quotes; further header fields; lines that end in LF only. The platform's parser refuses each of these.
 */
export function readMultipart(body: string, contentType: string): Field[] | null {
	const boundary = parameterOf(contentType, 'boundary');
	if (boundary === undefined || boundary === '') {
		return null;
	}
	const fields: Field[] = [];
	let part: string[] | null = null;
	for (const line of body.split('\n')) {
		const ending = delimiterOf(line, boundary);
		if (ending === undefined) {
			part?.push(line);
			continue;
		}
		const field = part && fieldOf(part);
		if (field) {
			fields.push(field);
		}
		if (ending === 'last') {
			break;
		}
		part = [];
	}
	return fields;
}

// RFC 2046 §5.1.1: only white space may stand behind a delimiter.
function delimiterOf(line: string, boundary: string): 'next' | 'last' | undefined {
	if (!line.startsWith(`--${boundary}`)) {
		return undefined;
	}
	const rest = line.slice(boundary.length + 2).trimEnd();
	return rest === '' ? 'next' : rest === '--' ? 'last' : undefined;
}

function fieldOf(lines: readonly string[]): Field | undefined {
	const empty = lines.findIndex(line => line === '' || line === '\r');
	const head = empty === -1 ? [] : lines.slice(0, empty);
	const disposition = head.find(line => /^content-disposition:/i.test(line));
	const name = disposition && parameterOf(disposition, 'name');
	if (disposition === undefined || name === undefined) {
		return undefined;
	}
	const isFile = parameterOf(disposition, 'filename') !== undefined;
	// The line end before a delimiter belongs to the delimiter.
	const value = lines
		.slice(empty + 1)
		.join('\n')
		.replace(/\r$/, '');
	return {name, value: isFile ? null : value};
}

function parameterOf(header: string, name: string): string | undefined {
	const [, quoted, plain] = new RegExp(`;[ \\t]*${name}=(?:"([^"]*)"|([^;\\s"]+))`, 'i').exec(header) ?? [];
	return quoted ?? plain;
}
