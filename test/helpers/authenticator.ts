import {createHash, generateKeyPairSync, randomBytes, sign} from 'node:crypto';

type Flags = {readonly verified?: boolean; readonly counter?: number; readonly origin?: string};

/** The few forms of CBOR (RFC 8949) that an authenticator writes: small integers, texts, octets, maps. */
function cbor(value: number | string | Uint8Array | ReadonlyArray<readonly [number | string, unknown]>): Buffer {
	const head = (type: number, n: number) =>
		n < 24 ? [(type << 5) | n] : n < 256 ? [(type << 5) | 24, n] : [(type << 5) | 25, n >> 8, n & 255];
	if (typeof value === 'number') {
		return Buffer.from(value >= 0 ? head(0, value) : head(1, -1 - value));
	}
	if (typeof value === 'string') {
		return Buffer.concat([Buffer.from(head(3, value.length)), Buffer.from(value)]);
	}
	if (value instanceof Uint8Array) {
		return Buffer.concat([Buffer.from(head(2, value.length)), value]);
	}
	const pairs = value.flatMap(([key, each]) => [cbor(key), cbor(each as string)]);
	return Buffer.concat([Buffer.from(head(5, value.length)), ...pairs]);
}

const sha256 = (data: string | Uint8Array) => createHash('sha256').update(data).digest();

/** A passkey of ES256 that answers as a browser would (Web Authentication, level 3), with one credential. */
export function createAuthenticator({host, origin: usual}: {readonly host: string; readonly origin: string}) {
	const {publicKey, privateKey} = generateKeyPairSync('ec', {namedCurve: 'P-256'});
	const {x = '', y = ''} = publicKey.export({format: 'jwk'});
	const rawId = randomBytes(16);
	const id = rawId.toString('base64url');
	const key = cbor([
		[1, 2],
		[3, -7],
		[-1, 1],
		[-2, Buffer.from(x, 'base64url')],
		[-3, Buffer.from(y, 'base64url')],
	]);
	const clientData = (type: string, challenge: string, origin = usual) =>
		Buffer.from(JSON.stringify({type, challenge, origin, crossOrigin: false}));
	const authData = ({verified = true, counter = 0}: Flags, attested: Uint8Array = Buffer.alloc(0)) => {
		const flags = 0x01 | (verified ? 0x04 : 0) | (attested.length > 0 ? 0x40 : 0);
		const counted = Buffer.alloc(4);
		counted.writeUInt32BE(counter);
		return Buffer.concat([sha256(host), Buffer.from([flags]), counted, attested]);
	};
	const common = {id, rawId: id, type: 'public-key', clientExtensionResults: {}};
	return {
		id,
		register({challenge}: {readonly challenge: string}, flags: Flags = {}) {
			const attested = Buffer.concat([Buffer.alloc(16), Buffer.from([0, rawId.length]), rawId, key]);
			const object = cbor([
				['fmt', 'none'],
				['attStmt', []],
				['authData', authData(flags, attested)],
			]);
			return {
				...common,
				response: {
					clientDataJSON: clientData('webauthn.create', challenge, flags.origin).toString('base64url'),
					attestationObject: object.toString('base64url'),
				},
			};
		},
		logIn({challenge}: {readonly challenge: string}, flags: Flags = {}) {
			const [data, client] = [authData(flags), clientData('webauthn.get', challenge, flags.origin)];
			return {
				...common,
				response: {
					clientDataJSON: client.toString('base64url'),
					authenticatorData: data.toString('base64url'),
					signature: sign('sha256', Buffer.concat([data, sha256(client)]), privateKey).toString('base64url'),
				},
			};
		},
	};
}
