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
