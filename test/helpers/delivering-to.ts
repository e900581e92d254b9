import type {ExecutionContext} from 'ava';
import {type Program, prepareProgram, type Scope, type Settings} from './daemon.ts';
import {type FakeDns, startFakeDns} from './fake-dns.ts';
import {type FakeMx, type FakeMxOptions, startFakeMx} from './fake-mx.ts';

/** The domains whose mail goes there. */
export const domains = ['a.example', 'b.example', 'c.example', 'd.example'];

/** One host for all mail to `domains`, and the settings of a program that delivers to it. */
export async function startMx(
	t: Scope,
	options: FakeMxOptions,
): Promise<{mx: FakeMx; dns: FakeDns; settings: Settings}> {
	const mx = await startFakeMx(t, options);
	const dns = await startFakeDns(t, {
		...Object.fromEntries(domains.map(domain => [domain, {mx: [[10, 'mx.example']] as const}])),
		'mx.example': {a: [mx.host]},
	});
	return {
		mx,
		dns,
		settings: {
			MAILCTL_HOSTNAME: 'mail.shop.example',
			MAILCTL_PUBLIC_URL: 'https://mail.shop.example',
			MAILCTL_RETURN_PATH_DOMAIN: 'bounce.shop.example',
			MAILCTL_DELIVERY: 'mx',
			MAILCTL_DNS_SERVERS: dns.server,
			MAILCTL_MX_PORT: String(mx.port),
			MAILCTL_ALLOW_PRIVATE_MX: 'true',
			MAILCTL_RATE_LIMIT: '0',
		},
	};
}

/** The program delivering there. */
export async function deliveringTo(
	t: ExecutionContext,
	options: FakeMxOptions,
	more: Settings = {},
): Promise<{program: Program; mx: FakeMx}> {
	const {mx, settings} = await startMx(t, options);
	return {program: await prepareProgram(t, {...settings, ...more}), mx};
}
