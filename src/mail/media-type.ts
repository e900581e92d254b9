/** A media type (RFC 2045 §5.1) with the parameters that an attachment may have. */
type MediaType = {
	/** As written, such as `text/plain`. */
	readonly type: string;
	/** `charset` for text types and `method` for text/calendar (RFC 5546 §1.4), as written, without quotes. */
	readonly parameters: ReadonlyMap<string, string>;
};

// RFC 6838 §4.2.
const name = '[a-z0-9][\\w!#$&^.+-]{0,126}';
const token = "[\\w!#$&^.+'*-]+";
const mediaTypePattern = new RegExp(`^(${name}/${name})((?:\\s*;\\s*\\w+=(?:"${token}"|${token}))*)$`, 'i');
const parameter = new RegExp(`;\\s*(\\w+)=(?:"(${token})"|(${token}))`, 'g');

/** Returns `null` if the text is not a media type, or a parameter is unknown or repeated. */
export function readMediaType(text: string): MediaType | null {
	const [, type, rest = ''] = mediaTypePattern.exec(text) ?? [];
	if (type === undefined) {
		return null;
	}
	const parameters = new Map<string, string>();
	for (const [, name = '', quoted, bare] of rest.matchAll(parameter)) {
		const key = name.toLowerCase();
		const isAllowed =
			key === 'charset' ? /^text\//i.test(type) : key === 'method' && /^text\/calendar$/i.test(type);
		if (!isAllowed || parameters.has(key)) {
			return null;
		}
		parameters.set(key, (quoted ?? bare) as string);
	}
	return {type, parameters};
}
