import type {ExecutionContext} from 'ava';
import type {Certificate} from './certificate.ts';
import {loopbackAddress} from './loopback.ts';
import {type Receiver, startReceiver} from './receiver.ts';

/** What the host of MTA-STS policies does with the next request. */
export type PolicyAnswer =
	| {readonly text: string; readonly type?: string | undefined; readonly status?: number}
	| {readonly redirect: string}
	| 'hangs';

export type PolicyHost = {
	readonly address: string;
	readonly port: number;
	readonly receiver: Receiver;
	/** May be changed while it runs. */
	answer: PolicyAnswer;
	/** Lets go those that it has kept waiting: they get the answer of now. */
	readonly release: () => void;
};

/** `mta-sts.<domain>`, HTTPS; closed after the test. */
export async function startPolicyHost(
	t: ExecutionContext,
	certificate: Certificate,
	answer: PolicyAnswer,
): Promise<PolicyHost> {
	const address = loopbackAddress();
	const waiting: Array<() => void> = [];
	const host = {answer};
	const receiver = await startReceiver(t, certificate, {
		host: address,
		answer(_received, response) {
			const respond = () => {
				const now = host.answer;
				if (now === 'hangs') {
					waiting.push(respond);
				} else if ('redirect' in now) {
					response.writeHead(301, {location: now.redirect}).end();
				} else {
					const {text, type = 'text/plain', status = 200} = now;
					response.writeHead(status, {'content-type': type}).end(text);
				}
			};
			respond();
		},
	});
	return Object.assign(host, {
		address,
		port: receiver.port,
		receiver,
		release() {
			for (const respond of waiting.splice(0)) {
				respond();
			}
		},
	});
}

/** The text of a policy. */
export function policyText(mode: string, mx: readonly string[], maxAge = 604_800): string {
	return ['version: STSv1', `mode: ${mode}`, ...mx.map(host => `mx: ${host}`), `max_age: ${maxAge}`, ''].join('\r\n');
}
