import process from 'node:process';
import test from 'ava';
import {startDeaf} from '../helpers/deaf.ts';
import {startFakeDns, type Zone} from '../helpers/fake-dns.ts';
import {type FakeMx, type FakeMxOptions, startFakeMx} from '../helpers/fake-mx.ts';
import {loopbackAddress} from '../helpers/loopback.ts';
import {serviceOf, type Workspace} from '../helpers/service.ts';
import {waitFor} from '../helpers/wait.ts';

/** Set SILENT=20000 for more in a manual run. */
const silentDomains = Number(process.env.SILENT ?? 200);
const never = {do: 'never'} as const;
/** The step after which a mail server falls silent; one sends its greeting octet by octet. */
const silences: Record<string, FakeMxOptions> = {
	greeting: {greeting: never},
	partial: {greeting: {bytes: '220-'}},
	ehlo: {ehlo: never},
	starttls: {extensions: ['STARTTLS'], starttls: never},
	mail: {mail: never},
};
const kinds = [...Object.keys(silences), 'deaf'];

let well: FakeMx;
const silent: FakeMx[] = [];

const service = serviceOf(test, {
	workspaces: {big: [], small: []},
	async settings(scope) {
		well = await startFakeMx(scope, {host: loopbackAddress()});
		const {port} = well;
		const zone: Zone = {'well.host': {a: [well.host]}};
		for (const [kind, script] of Object.entries(silences)) {
			const host = await startFakeMx(scope, {host: loopbackAddress(), port, ...script});
			silent.push(host);
			zone[`${kind}.host`] = {a: [host.host]};
		}
		const deaf = loopbackAddress();
		await startDeaf(scope, deaf, port);
		zone['deaf.host'] = {a: [deaf]};
		// Every domain has names of its own for the same hosts, so that each is a site.
		const named = new Proxy(zone, {
			get: (target, name: string) => target[name] ?? entryOf(name),
			getOwnPropertyDescriptor: () => ({configurable: true, enumerable: true, writable: true, value: {}}),
		});
		const {server} = await startFakeDns(scope, named);
		return {
			MAILCTL_DELIVERY: 'mx',
			MAILCTL_HOSTNAME: 'mail.shop.example',
			MAILCTL_PUBLIC_URL: 'https://mail.shop.example',
			MAILCTL_RETURN_PATH_DOMAIN: 'bounce.shop.example',
			MAILCTL_DNS_SERVERS: server,
			MAILCTL_MX_PORT: String(port),
			MAILCTL_ALLOW_PRIVATE_MX: 'true',
			MAILCTL_RATE_LIMIT: '0',
			MAILCTL_MTA_STS: 'false',
		};
	},
});

/** `mx.a.deaf.test` is the mail server of `a.deaf.test`, another name of `deaf.host`. */
function entryOf(name: string): Zone[string] {
	const [, kind] = /(\w+)\.test$/.exec(name) ?? [];
	if (kind === undefined || !(kind === 'well' || kinds.includes(kind))) {
		return 'nxdomain';
	}
	return name.startsWith('mx.') ? {cname: `${kind}.host`} : {mx: [[10, `mx.${name}`]]};
}

async function sendAll({live, from, templates}: Workspace, recipients: readonly string[]): Promise<void> {
	for (let first = 0; first < recipients.length; first += 100) {
		const messages = recipients.slice(first, first + 100).map(to => ({from, to, templateId: templates.plain}));
		await live.post('/v1/messages/batch', {messages});
	}
}

test('silent mail servers of one workspace do not delay messages of another to a new mail server', async t => {
	const {workspaces} = service();
	const {big, small} = workspaces as {big: Workspace; small: Workspace};
	const dead = Array.from({length: silentDomains}, (_, n) => `user@d${n}.${kinds[n % kinds.length]}.test`);
	await sendAll(big, dead);
	const times: number[] = [];
	async function sendSome(name: string): Promise<void> {
		for (let n = 0; n < 6; n++) {
			const began = performance.now();
			const to = `user@${name}${n}.well.test`;
			const priority = n % 3 === 2 ? 'high' : 'normal';
			await small.live.post('/v1/messages', {from: small.from, to, templateId: small.templates.plain, priority});
			// By their timeouts the hosts are silent for minutes.
			await waitFor(to, () => well.received.some(mail => mail.to[0] === to), 30_000);
			times.push(Math.round(performance.now() - began));
		}
	}
	const tried = () => silent.reduce((sum, {connections}) => sum + connections.length, 0);
	await waitFor('all kinds of silence', () => silent.every(({connections}) => connections.length > 0));
	await sendSome('first');
	// Five in six of what is tried reaches a host that accepts: more than all sessions together.
	await waitFor('more than may be silent at once', () => tried() > 80);
	await sendSome('later');
	t.log(`milliseconds until it arrived: ${times.join(' ')}`);
	const most = silent.reduce((sum, {maxOpen}) => sum + maxOpen(), 0);
	t.true(most <= 64, `${most} sessions at once`);
});
