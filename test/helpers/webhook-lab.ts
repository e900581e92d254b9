import {writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {type Certificate, makeCertificate} from './certificate.ts';
import {type Program, prepareProgram, type Scope, type Settings, type Welcome} from './daemon.ts';
import {loopbackAddress} from './loopback.ts';
import {call} from './shop.ts';

export const host = 'hooks.shop.example';
/** Where nothing listens, until the end. */
export const deadHost = loopbackAddress();
export const certificate = makeCertificate(host, '127.0.0.1', deadHost);

/** The program with a lab for webhooks: loopback may be reached, our certificate is trusted. */
export async function prepare(t: Scope, settings: Settings = {}): Promise<Program> {
	const program = await prepareProgram(t, {
		MAILCTL_RATE_LIMIT: '0',
		MAILCTL_WEBHOOK_ALLOW_CIDRS: '127.0.0.0/8',
		...settings,
	});
	return {...program, serve: more => program.serve({MAILCTL_WEBHOOK_CA_FILE: trust(program, certificate), ...more})};
}

function trust({folder}: Program, {cert}: Certificate): string {
	const file = join(folder, 'ca.pem');
	writeFileSync(file, cert);
	return file;
}

export type Delivery = {
	readonly id: string;
	readonly status: string;
	readonly attempts: number;
	readonly last_error: string | null;
};

/** What a client of the API does. */
export function clientOf(url: string, {key, from, templateId}: Welcome) {
	const get = async (path: string) => (await call(`${url}${path}`, key)).body;
	return {
		async register(endpoint: string, events: readonly string[] = ['delivered']) {
			const {status, body} = await call(`${url}/v1/webhooks`, key, {url: endpoint, events});
			if (status !== 201) {
				throw new Error(JSON.stringify(body));
			}
			return body as {id: string; signing_secret: string};
		},
		async send(to: string, metadata: object = {}) {
			const {status, body} = await call(`${url}/v1/messages`, key, {from, to, templateId, metadata});
			if (status !== 202) {
				throw new Error(JSON.stringify(body));
			}
			return (body as {id: string}).id;
		},
		async rotate(id: string, overlap: string) {
			const {status, body} = await call(`${url}/v1/webhooks/${id}/rotate-secret`, key, {overlap});
			if (status !== 200) {
				throw new Error(JSON.stringify(body));
			}
			return body as {signing_secret: string};
		},
		deliveries: async (id: string) =>
			((await get(`/v1/webhooks/${id}/deliveries?limit=100`)) as {data: Delivery[]}).data,
		replay: async (id: string) => await call(`${url}/v1/webhooks/deliveries/${id}/replay`, key, {}),
	};
}
