import {createHash, createHmac} from 'node:crypto';

/** A request to an AWS service. */
export type AwsRequest = {
	readonly method: string;
	/** The path must contain only unreserved characters, so that it needs no further encoding. */
	readonly url: URL;
	readonly body?: Buffer;
};

/** The credentials, and the service they are used for. */
export type AwsCredentials = {
	readonly keyId: string;
	readonly secret: string;
	readonly region: string;
	/** For example `ses`. */
	readonly service: string;
};

/**
 * Returns the header fields that sign a request with Signature Version 4:
 * https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html. `now` is in milliseconds.
 */
export function signAws(
	{method, url, body = Buffer.alloc(0)}: AwsRequest,
	{keyId, secret, region, service}: AwsCredentials,
	now: number,
): {readonly 'x-amz-date': string; readonly authorization: string} {
	const time = new Date(now).toISOString().replace(/[-:]|\.\d{3}/g, '');
	const scope = [time.slice(0, 8), region, service, 'aws4_request'];
	const signedHeaders = 'host;x-amz-date';
	const canonical = [
		method,
		url.pathname,
		toQuery(url),
		`host:${url.host}`,
		`x-amz-date:${time}`,
		'',
		signedHeaders,
		sha256(body),
	].join('\n');
	const key = scope.reduce((parent: string | Buffer, part) => hmac(parent, part), `AWS4${secret}`);
	const signature = hmac(key, ['AWS4-HMAC-SHA256', time, scope.join('/'), sha256(canonical)].join('\n'));
	const authorization = `AWS4-HMAC-SHA256 Credential=${[keyId, ...scope].join('/')}, SignedHeaders=${signedHeaders}, Signature=${signature.toString('hex')}`;
	return {'x-amz-date': time, authorization};
}

/** Returns the query string sorted by encoded name, then by value. */
function toQuery({searchParams}: URL): string {
	const pairs = [...searchParams].map(pair => pair.map(encoded));
	const compare = (a = '', b = ''): number => (a < b ? -1 : Number(a > b));
	return pairs
		.toSorted(([a, x], [b, y]) => compare(a, b) || compare(x, y))
		.map(pair => pair.join('='))
		.join('&');
}

/** Encodes all but the unreserved characters of RFC 3986 §2.3. */
function encoded(text: string): string {
	return encodeURIComponent(text).replace(/[!'()*]/g, char => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
}

function sha256(data: string | Buffer): string {
	return createHash('sha256').update(data).digest('hex');
}

function hmac(key: string | Buffer, text: string): Buffer {
	return createHmac('sha256', key).update(text).digest();
}
