import {X509Certificate} from 'node:crypto';
import {once} from 'node:events';
import {mkdtempSync, writeFileSync} from 'node:fs';
import {rm} from 'node:fs/promises';
import {createServer} from 'node:http';
import type {AddressInfo} from 'node:net';
import {tmpdir} from 'node:os';
import path from 'node:path';
import {setTimeout} from 'node:timers/promises';
import test, {type ExecutionContext} from 'ava';
import {Certificates} from '../../../src/daemon/certificates.ts';
import {storeTime} from '../../../src/kit/time.ts';
import {notAsked, overBudget, renewAt, stateOf} from '../../../src/resources/certificates/renewal.ts';
import {
	type FullCertificate,
	findCertificate,
	findChallenge,
	insertChallenge,
	listCertificates,
	makeDue,
	openCertificates,
} from '../../../src/resources/certificates/store.ts';
import type {Store} from '../../../src/store/store.ts';
import {startAcmeServer} from '../../helpers/acme-server.ts';
import {onWriting, sqliteTest, storeTest} from '../../helpers/databases.ts';
import {startFakeDns} from '../../helpers/fake-dns.ts';
import {testTools, testVault} from '../../helpers/tools.ts';
import {waitFor} from '../../helpers/wait.ts';
import {addWorkspace} from '../../helpers/workspace.ts';

// Serial, because each opens a store, a CA and a DNS server.
const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;
const mail = 'mail.lab.test';

/** Real pauses, but short, because the test CA runs on this machine. */
const pause = (ms: number, signal: AbortSignal) => setTimeout(Math.min(ms, 50), undefined, {signal});

type Binding = {readonly kid: string; readonly key: string};

/** Starts a CA, a zone, a web server for challenges, and nodes on one store whose clock the test controls. */
async function prepare(t: ExecutionContext, store: Store, eab: Binding | null = null) {
	const tools = testTools(Date.now());
	const {clock} = tools;
	const web = createServer(async ({url = ''}, response) => {
		const found = await findChallenge(
			store.reader,
			{type: 'http-01', token: url.split('/').at(-1) ?? ''},
			storeTime(clock.now()),
		);
		response.writeHead(found ? 200 : 404).end(found?.key_authorization);
	});
	web.listen(0, '127.0.0.1');
	await once(web, 'listening');
	t.teardown(() => web.close());
	const http = (web.address() as AddressInfo).port;
	const dns = await startFakeDns(t, {[mail]: {a: ['127.0.0.1']}});
	const ca = await startAcmeServer(t, () => ({host: '127.0.0.1', http, tls: 1}), {eab});
	const folder = mkdtempSync(path.join(tmpdir(), 'mailctl-acme-'));
	t.teardown(() => rm(folder, {recursive: true}));
	const acmeCaFile = path.join(folder, 'ca.pem');
	writeFileSync(acmeCaFile, ca.ca);
	const lines: Array<Record<string, unknown>> = [];
	const note = (line: Record<string, unknown>, text = '') => lines.push({...line, text});
	const settings = {
		...{acme: true, acmeEmail: 'admin@lab.test', acmeDirectory: ca.directory, acmeCaFile, caFile: null},
		acmeEab: eab && {kid: eab.kid, key: Buffer.from(eab.key, 'base64url')},
		...{
			hostname: mail,
			publicUrl: null,
			returnPathDomain: 'bounces.lab.test',
			dnsServers: [dns.server],
			tokenLifetime: 100 * day,
		},
		...{httpListen: {host: '127.0.0.1', port: 80}, httpsListen: null, httpRedirectListen: null},
	};
	async function node(
		own: Partial<typeof settings> = {},
		storeFailed = (error: unknown): unknown => t.fail(String(error)),
		vault = testVault,
	) {
		const observer = {logger: {info: note, warn: note}, storeFailed};
		const parts = {settings: {...settings, ...own}, store, vault, ...tools, version: '1', observer};
		const certificates = new Certificates(parts as never, pause);
		t.teardown(() => certificates.stop());
		await certificates.open();
		return certificates;
	}
	const read = async (name = mail) => (await findCertificate(store.reader, name)) as FullCertificate;
	/** Advances the time to just after the row is due. */
	async function until(at: string | null) {
		tools.advance(Date.parse(at ?? '') - clock.now() + 1);
	}
	return {
		...{tools, clock, ca, zone: dns.zone, queries: dns.queries, settings, node, read, until, lines},
		now: () => clock.now(),
	};
}

storeTest(test.serial, 'orders a certificate, stores it with its key encrypted and presents it', async (t, store) => {
	const {ca, node, read, lines} = await prepare(t, store);
	const certificates = await node();
	t.is(certificates.contextFor(mail), undefined);
	t.is(certificates.own(), null);
	let changes = 0;
	certificates.onChange(() => changes++);
	await certificates.renewDue();
	const row = await read();
	t.like(row, {issuer: 'Lab CA', tries: 0, fault: null, unused: null, taken_until: null, window_start: null});
	t.is(new X509Certificate(row.chain ?? '').subjectAltName, `DNS:${mail}`);
	t.regex(row.secret ?? '', /^v1\./);
	const [opened] = await openCertificates(store.reader, testVault, [mail], () => t.fail());
	t.regex(opened?.key ?? '', /PRIVATE KEY/);
	t.deepEqual(certificates.own(), {cert: row.chain, key: opened?.key} as never);
	t.truthy(certificates.contextFor('MAIL.lab.test'));
	t.is(certificates.contextFor('other.test'), certificates.contextFor(mail));
	t.is(changes, 1);
	t.deepEqual(ca.looks, [`http-01 ${mail}`]);
	t.deepEqual(
		[...ca.accounts.values()].map(({contact}) => contact),
		[['mailto:admin@lab.test']],
	);
	t.is(await store.reader('acme_challenges').first(), undefined);
	t.like(await store.reader('audit').first(), {action: 'certificate.issued', target: mail, workspace_id: null});
	t.like(lines[0], {event: 'certificate_issued', name: mail});
	t.notRegex(JSON.stringify([lines, await store.reader('audit')]), /PRIVATE|v1\./);
	await certificates.renewDue();
	t.is(ca.orders.length, 1);
});

sqliteTest(
	test.serial,
	'renews a certificate after two thirds of its life with a new key if the CA suggests no time',
	async (t, store) => {
		const {ca, node, read, until, now, tools} = await prepare(t, store);
		const certificates = await node();
		await certificates.renewDue();
		const first = await read();
		tools.advance(59 * day);
		await certificates.renewDue();
		t.is(ca.orders.length, 1);
		const at = renewAt(first) ?? 0;
		t.true(Math.abs(at - Date.now() - 60 * day) < hour);
		ca.behaviour.life = {from: at, until: at + 90 * day};
		await until(storeTime(at));
		await certificates.renewDue();
		const second = await read();
		t.is(ca.orders.length, 2);
		t.truthy(ca.orders[1]?.replaces);
		t.not(second.chain, first.chain);
		t.not(second.secret, first.secret);
		t.is(certificates.own()?.cert ?? null, second.chain);
		t.true((renewAt(second) ?? 0) > now());
	},
);

sqliteTest(test.serial, 'follows the renewal time that the CA suggests, even if it changes', async (t, store) => {
	const {ca, node, read, until, now, tools} = await prepare(t, store);
	ca.behaviour.window = {start: Date.now() + 20 * day, end: Date.now() + 30 * day};
	const certificates = await node();
	await certificates.renewDue();
	const first = await read();
	t.is(first.window_start, storeTime(ca.behaviour.window.start));
	const planned = renewAt(first) ?? 0;
	t.true(planned >= ca.behaviour.window.start && planned <= ca.behaviour.window.end);
	t.is(Date.parse(first.next_try_at), now() + hour, 'the CA is asked again when it allows that');
	tools.advance(2 * hour);
	await certificates.renewDue();
	t.is(renewAt(await read()), planned, 'the same moment of the same window');
	t.is(ca.orders.length, 1);
	// As a CA does before it revokes a certificate.
	ca.behaviour.window = {start: now() - 2 * day, end: now() - day};
	await until((await read()).next_try_at);
	await certificates.renewDue();
	t.is(ca.orders.length, 2);
	t.truthy(ca.orders[1]?.replaces);
	await store.writer.transaction(trx => makeDue(trx, null, storeTime(now())));
	ca.behaviour.window = null;
	await certificates.renewDue();
	t.is(ca.orders.length, 3, 'an operator wants it');
});

sqliteTest(
	test.serial,
	'orders at most hourly from a CA that wants each new certificate renewed at once',
	async (t, store) => {
		const {ca, node, read, until, now, tools} = await prepare(t, store);
		ca.behaviour.window = {start: now() - 2 * day, end: now() - day};
		const certificates = await node();
		await certificates.renewDue();
		t.is(Date.parse((await read()).next_try_at), now() + hour);
		tools.advance(59 * minute);
		await certificates.renewDue();
		t.is(ca.orders.length, 1);
		ca.behaviour.life = {from: now() - hour, until: now() + 8 * minute};
		await until((await read()).next_try_at);
		await certificates.renewDue();
		t.is(ca.orders.length, 2);
		const {next_try_at: next, not_after: end} = await read();
		t.is(
			Date.parse(next) - now(),
			Math.floor((Date.parse(end ?? '') - now()) / 4),
			'sooner where it lives for minutes',
		);
	},
);

sqliteTest(test.serial, 'orders a new certificate if the old one was already replaced', async (t, store) => {
	const {ca, node, read, now} = await prepare(t, store);
	const certificates = await node();
	await certificates.renewDue();
	const {chain, secret} = await read();
	const again = () => store.writer.transaction(trx => makeDue(trx, mail, storeTime(now())));
	await again();
	await certificates.renewDue();
	await store.database('certificates').update({chain, secret});
	await again();
	await certificates.renewDue();
	t.deepEqual(
		ca.orders.map(({status, replaces}) => [status, replaces === null]),
		[
			['valid', true],
			['valid', false],
			['valid', true],
		],
	);
});

sqliteTest(
	test.serial,
	'keeps the old certificate and retries less often while the CA is down or failing',
	async (t, store) => {
		const {ca, node, read, until, now, lines} = await prepare(t, store);
		const certificates = await node();
		await certificates.renewDue();
		const first = await read();
		await until(storeTime(renewAt(first) ?? 0));
		ca.behaviour.away = true;
		const waits: number[] = [];
		for (let n = 0; n < 9; n++) {
			await certificates.renewDue();
			const {next_try_at: next} = await read();
			waits.push((Date.parse(next) - now()) / minute);
			await until(next);
		}
		t.deepEqual(waits, [5, 10, 20, 40, 80, 160, 320, 640, 720]);
		const row = await read();
		t.is(row.chain, first.chain);
		t.regex(row.fault ?? '', /^the CA at 127\.0\.0\.1:\d+ does not respond: /);
		t.is(certificates.own()?.cert ?? null, first.chain);
		t.like(lines.at(-1), {event: 'certificate_failed', name: mail, text: row.fault});
		ca.behaviour.away = false;
		ca.behaviour.failing = true;
		await certificates.renewDue();
		t.like(await read(), {
			chain: first.chain,
			tries: 10,
			fault: 'the CA rejected the order: The HSM is out of order.',
		});
		ca.behaviour.failing = false;
		ca.behaviour.life = {from: now() - hour, until: now() + 90 * day};
		await until((await read()).next_try_at);
		await certificates.renewDue();
		t.like(await read(), {tries: 0, fault: null});
		t.not((await read()).chain, first.chain);
	},
);

sqliteTest(test.serial, 'obeys the rate limit of the CA, given in seconds or as a date', async (t, store) => {
	const {ca, node, read, until, now} = await prepare(t, store);
	const certificates = await node();
	ca.behaviour.limited = '7200';
	await certificates.renewDue();
	const row = await read();
	t.is(Date.parse(row.next_try_at), now() + 2 * hour);
	t.is(row.fault, 'the CA responded with 429: Too many certificates were given.');
	ca.behaviour.limited = new Date(now() + 2 * hour + 3 * day).toUTCString();
	await until(row.next_try_at);
	await certificates.renewDue();
	t.true(Math.abs(Date.parse((await read()).next_try_at) - now() - 3 * day) < minute);
	ca.behaviour.limited = '';
	await until((await read()).next_try_at);
	await certificates.renewDue();
	t.is(Date.parse((await read()).next_try_at), now() + 20 * minute, 'where it names no time ours holds');
	t.is(ca.orders.length, 0);
	ca.behaviour.limited = null;
	await until((await read()).next_try_at);
	await certificates.renewDue();
	const issued = await read();
	ca.behaviour.limited = '999999999';
	await store.writer.transaction(trx => makeDue(trx, mail, storeTime(now())));
	await certificates.renewDue();
	const left = Date.parse(issued.not_after ?? '') - now();
	t.is(Date.parse((await read()).next_try_at) - now(), Math.floor(left / 4), 'not until the certificate has ended');
});

sqliteTest(test.serial, 'reports a certificate with a damaged key and orders it again', async (t, store) => {
	const {ca, node, read} = await prepare(t, store);
	const first = await node();
	await first.renewDue();
	await store.database('certificates').update({secret: 'v1.1.damaged'});
	const faults: unknown[] = [];
	const certificates = await node({}, error => faults.push(error));
	t.is(certificates.own(), null);
	t.is((await read()).fault, 'its key in the store is damaged');
	t.is(faults.length, 1);
	await certificates.renewDue();
	t.like(await read(), {fault: null, tries: 0});
	t.is(ca.orders.length, 2);
	t.truthy(certificates.own());
});

sqliteTest(test.serial, 'neither decrypts nor rewrites unchanged certificates', async (t, store, engine) => {
	const {ca, node, zone, tools, now} = await prepare(t, store);
	zone['mta-sts.bounces.lab.test'] = {a: ['127.0.0.1']};
	await (await node()).renewDue();
	const opened: string[] = [];
	const open: typeof testVault.open = (name, sealed) => {
		opened.push(name);
		return testVault.open(name, sealed);
	};
	const certificates = await node({}, undefined, {...testVault, open});
	t.deepEqual(opened.splice(0).toSorted(), [mail, 'mta-sts.bounces.lab.test']);
	const former = certificates.contextFor(mail);
	t.is(certificates.contextFor(mail), former, 'it is made once');
	await certificates.renewDue();
	await store.writer.idle();

	const written: string[] = [];
	onWriting(store, 'query', ({sql}) =>
		written.push(...(/^(?:insert into|delete from) ["`]?certificates\b/.test(sql) ? [sql] : [])),
	);
	const lookAfter = async (ms: number) => {
		tools.advance(ms);
		certificates.forget();
		await certificates.renewDue();
		return written.splice(0).length;
	};
	t.is(await lookAfter(6 * minute), 0);
	t.is(await lookAfter(engine === 'sqlite' ? 12 * hour : 15 * minute), 1, 'one statement says that all are wanted');
	t.is(await lookAfter(6 * minute), 0);
	await certificates.stop();
	t.deepEqual(opened, []);

	await store.writer.transaction(trx => makeDue(trx, mail, storeTime(now())));
	await (await node()).renewDue();
	t.is(ca.orders.length, 3);
	const next = await node({}, undefined, {...testVault, open});
	opened.length = 0;
	await store.writer.transaction(trx => makeDue(trx, mail, storeTime(now())));
	await next.renewDue();
	t.deepEqual(
		opened.filter(name => name !== ca.directory),
		[mail],
	);
	t.not(next.contextFor(mail), former);
});

sqliteTest(test.serial, 'a damaged certificate only affects its own handshakes', async (t, store) => {
	const {node} = await prepare(t, store);
	await (await node()).renewDue();
	await store.database('certificates').update({chain: 'damaged'});
	const faults: unknown[] = [];
	const certificates = await node({}, error => faults.push(error));
	t.is(certificates.contextFor(mail), undefined);
	t.is(faults.length, 1);
});

sqliteTest(test.serial, 'orders our own name before all others', async (t, store) => {
	const {ca, zone, node} = await prepare(t, store);
	const publicName = 'zz.lab.test';
	zone[publicName] = {a: ['127.0.0.1']};
	zone['mta-sts.bounces.lab.test'] = {a: ['127.0.0.1']};
	const certificates = await node({publicUrl: `https://${publicName}`} as never);
	await certificates.renewDue();
	t.deepEqual(
		ca.orders.map(({name}) => name),
		[mail, publicName, 'mta-sts.bounces.lab.test'],
	);
});

sqliteTest(test.serial, 'replaces an expired nonce and recreates a lost account', async (t, store) => {
	const {ca, node, read, now} = await prepare(t, store);
	const certificates = await node();
	ca.behaviour.expiredNonces = 2;
	await certificates.renewDue();
	t.like(await read(), {fault: null, tries: 0});
	ca.behaviour.expiredNonces = 3;
	await store.writer.transaction(trx => makeDue(trx, null, storeTime(now())));
	await certificates.renewDue();
	t.is((await read()).fault, 'the CA responded with 400: The nonce has expired.');
	ca.forgetAccounts();
	await store.writer.transaction(trx => makeDue(trx, null, storeTime(now())));
	await certificates.renewDue();
	t.like(await read(), {fault: null, tries: 0});
	t.is(ca.accounts.size, 1);
	ca.closeAccounts();
	const due = storeTime(now());
	await store.database('certificates').update({tries: 3, next_try_at: due, window_start: due, window_end: due});
	await certificates.renewDue();
	t.like(await read(), {fault: null, tries: 0}, 'closed, and not at the first try');
	t.is(ca.accounts.size, 2);
	await store.database('acme_accounts').update({secret: 'v1.1.damaged'});
	await store.writer.transaction(trx => makeDue(trx, null, storeTime(now())));
	await certificates.renewDue();
	t.like(await read(), {fault: null, tries: 0});
	t.is(ca.accounts.size, 3);
});

sqliteTest(test.serial, 'an account in good standing is kept, whatever the CA refuses it', async (t, store) => {
	const {ca, node, read, now} = await prepare(t, store);
	const certificates = await node();
	await certificates.renewDue();
	ca.behaviour.faults.push({step: 'order', status: 403, type: 'unauthorized'});
	ca.behaviour.faults.push({step: 'order', status: 403, type: 'unauthorized'});
	await store.writer.transaction(trx => makeDue(trx, null, storeTime(now())));
	await certificates.renewDue();
	t.is((await read()).fault, 'the CA responded with 403: It is scripted.');
	t.is(ca.accounts.size, 1);
});

sqliteTest(test.serial, 'sends a new operator address to the CA once', async (t, store) => {
	const {ca, node, lines, now} = await prepare(t, store);
	await (await node()).renewDue();
	const contacts = () => [...ca.accounts.values()].map(({contact}) => contact);
	/** Returns how often a daemon with this address has sent it to the CA by the end of its first order. */
	const toldIn = async (acmeEmail: string) => {
		const [before, ordered] = [ca.requests.length, ca.orders.length];
		await store.writer.transaction(trx => makeDue(trx, null, storeTime(now())));
		const certificates = await node({acmeEmail});
		certificates.start();
		await waitFor('an order', () => ca.orders.length > ordered && ca.orders.at(-1)?.status === 'valid');
		await certificates.stop();
		return ca.requests.slice(before).filter(step => step === 'account').length;
	};
	t.is(await toldIn('admin@lab.test'), 0);
	const other = await node({acmeEmail: 'ops@lab.test'});
	other.start();
	await waitFor('the other address', () => contacts()[0]?.[0] === 'mailto:ops@lab.test');
	await waitFor('a note of it', async () => (await store.reader('acme_accounts').first()).email === 'ops@lab.test');
	await other.stop();
	t.is(await toldIn('ops@lab.test'), 0);
	ca.behaviour.faults.push({step: 'account', status: 400, type: 'invalidContact'});
	const refused = await node({acmeEmail: null as never});
	refused.start();
	await waitFor('a line of the log', () => lines.some(({event}) => event === 'acme_email_failed'));
	await refused.stop();
	const none = await node({acmeEmail: null as never});
	none.start();
	await waitFor('no address', () => contacts()[0]?.length === 0);
	t.is(ca.accounts.size, 1);
});

sqliteTest(
	test.serial,
	'certificates of another CA, even failed ones, are due at once and only once',
	async (t, store) => {
		const {ca, node, zone, read, settings, now, until} = await prepare(t, store);
		const other = await startAcmeServer(t, ca.behaviour.target);
		const acmeCaFile = path.join(path.dirname(settings.acmeCaFile), 'other.pem');
		writeFileSync(acmeCaFile, other.ca);
		zone['mta-sts.bounces.lab.test'] = {a: ['127.0.0.1']};
		await (await node()).renewDue();
		t.like(await read(), {directory: ca.directory, tried_directory: ca.directory});
		const {secret} = await read();
		await (await node()).renewDue();
		t.is((await read()).secret, secret, 'the same CA: nothing is due');
		// The first CA cannot renew one of them, which waits for half a day.
		ca.behaviour.failing = true;
		await until(storeTime(renewAt(await read()) ?? 0));
		await store.database('certificates').where({name: mail}).update({tries: 7});
		await (await node()).renewDue();
		t.true(Date.parse((await read()).next_try_at) > now() + hour);

		other.behaviour.failing = true;
		const change = {acmeDirectory: other.directory, acmeCaFile};
		const moved = await node(change);
		await moved.renewDue();
		t.deepEqual(
			other.orders.map(({name, replaces}) => [name, replaces]),
			[
				[mail, null],
				['mta-sts.bounces.lab.test', null],
			],
			'what the other CA gave is not named to this one',
		);
		t.like(await read(), {directory: ca.directory, tried_directory: other.directory, tries: 1});
		await (await node(change)).renewDue();
		t.is(other.orders.length, 2, 'a restart tries nothing before its time');
		other.behaviour.failing = false;
		other.behaviour.life = {from: now() - hour, until: now() + 90 * day};
		await until((await read()).next_try_at);
		await moved.renewDue();
		t.like(await read(), {directory: other.directory, fault: null, tries: 0});
		t.is(ca.accounts.size, 1, 'the former account stays');
	},
);

sqliteTest(
	test.serial,
	'an order by the operator tries the other challenge if the first does not work',
	async (t, store) => {
		const {ca, node, read, now} = await prepare(t, store);
		// Port 443 is not served either, which shows which one was used.
		const certificates = await node({httpsListen: {host: '127.0.0.1', port: 443} as never});
		await certificates.renewDue();
		t.deepEqual(ca.looks, [`http-01 ${mail}`]);
		ca.behaviour.target = () => ({host: '127.0.0.1', http: 1, tls: 1});
		for (let n = 0; n < 2; n++) {
			await store.writer.transaction(trx => makeDue(trx, mail, storeTime(now())));
			await certificates.renewDue();
			t.deepEqual(ca.looks.slice(-2), [`http-01 ${mail}`, `tls-alpn-01 ${mail}`]);
		}
		t.is(ca.looks.length, 5);
		t.regex((await read()).fault ?? '', /port 80 of .*; the CA cannot reach port 443 of /);
	},
);

sqliteTest(test.serial, 'binds an account to the customer’s external account', async (t, store) => {
	const eab = {kid: 'customer-7', key: Buffer.alloc(32, 7).toString('base64url')};
	const {ca, node, read, until} = await prepare(t, store, eab);
	const unbound = await node({acmeEab: null});
	await unbound.renewDue();
	t.is((await read()).fault, 'the CA responded with 403: An account needs a binding.');
	const bound = await node();
	await until((await read()).next_try_at);
	await bound.renewDue();
	t.is((await read()).fault, null);
	t.deepEqual(
		[...ca.accounts.values()].map(({bound: kid}) => kid),
		['customer-7'],
	);
});

sqliteTest(
	test.serial,
	'the error names the port that the CA cannot reach, or says that it found no address',
	async (t, store) => {
		const {ca, node, read, until, now} = await prepare(t, store);
		const {target} = ca.behaviour;
		const certificates = await node();
		ca.behaviour.target = () => ({host: '127.0.0.1', http: 1, tls: 1});
		await certificates.renewDue();
		t.regex(
			(await read()).fault ?? '',
			/^the CA cannot reach port 80 of mail\.lab\.test: Fetching the token failed: /,
		);
		t.is(Date.parse((await read()).next_try_at), now() + 5 * minute);
		ca.behaviour.target = () => undefined;
		await until((await read()).next_try_at);
		await certificates.renewDue();
		t.is((await read()).fault, 'the CA cannot look up mail.lab.test: No address was found for mail.lab.test.');
		ca.behaviour.offers = ['dns-01'];
		ca.behaviour.target = target;
		await until((await read()).next_try_at);
		await certificates.renewDue();
		t.is((await read()).fault, 'the CA offers neither http-01 nor tls-alpn-01 for mail.lab.test');
	},
);

storeTest(test.serial, 'several nodes that check at once place one order', async (t, store, engine) => {
	const {ca, node, read, now} = await prepare(t, store);
	const nodes = await Promise.all([1, 2, 3, 4, 5].map(() => node({publicUrl: 'https://www.lab.test' as never})));
	await Promise.all(nodes.map(each => each.renewDue()));
	await Promise.all(nodes.map(each => each.renewDue()));
	t.deepEqual(ca.orders.map(({name, status}) => `${name} ${status}`).toSorted(), [
		`${mail} valid`,
		'www.lab.test valid',
	]);
	t.is(new Set(ca.orders.map(({account}) => account)).size, 1, 'two that begin at once share an account');
	for (const each of nodes) {
		each.forget();
		await waitFor(
			'the certificate of another node',
			() => each.own()?.cert === undefined || each.contextFor('www.lab.test'),
		);
	}
	// One node has claimed it; the others leave it until the claim expires.
	await store.writer.transaction(trx => makeDue(trx, mail, storeTime(now())));
	await store
		.database('certificates')
		.where({name: mail})
		.update({taken_until: storeTime(now() + minute)});
	await Promise.all(nodes.map(each => each.renewDue()));
	t.is(ca.orders.length, 2);
	await store
		.database('certificates')
		.where({name: mail})
		.update({taken_until: storeTime(now() - 1)});
	await Promise.all(nodes.map(each => each.renewDue()));
	t.is(ca.orders.length, 3);
	t.is((await read()).taken_until, null);
	// A single daemon starts with nothing in progress.
	await store.database('certificates').update({taken_until: storeTime(now() + minute)});
	await node();
	t.is((await read()).taken_until === null, engine === 'sqlite');
});

storeTest(test.serial, 'uses the latest challenge of a name, whatever a dead node left behind', async (t, store) => {
	const [now, later] = [Date.now(), Date.now() + 10 * minute].map(storeTime) as [string, string];
	const rest = {name: mail, type: 'tls-alpn-01', expires_at: later} as const;
	for (const token of ['b', 'c', 'a']) {
		const challenge = {...rest, token, key_authorization: `${token}.key`};
		await store.writer.transaction(trx => insertChallenge(trx, challenge, now));
		t.like(await findChallenge(store.reader, {type: 'tls-alpn-01', name: mail}, now), {token});
	}
	const other = {...rest, name: 'www.lab.test', token: 'd', key_authorization: 'd.key'};
	await store.writer.transaction(trx => insertChallenge(trx, other, now));
	t.like(
		await findChallenge(store.reader, {type: 'tls-alpn-01', name: mail}, now),
		{token: 'a'},
		'those of other names stay',
	);
});

storeTest(test.serial, 'carries out an order by the operator that came during a failing one', async (t, store) => {
	const {ca, node, read, until, now} = await prepare(t, store);
	const certificates = await node();
	ca.behaviour.failing = true;
	for (let n = 0; n < 3; n++) {
		await certificates.renewDue();
		await until((await read()).next_try_at);
	}
	ca.behaviour.failing = false;
	ca.behaviour.holding = true;
	const looked = certificates.renewDue();
	await waitFor('an order that waits', () => ca.orders[3]?.status === 'processing');
	await store.writer.transaction(trx => makeDue(trx, mail, storeTime(now())));
	Object.assign(ca.orders[3] as object, {status: 'invalid'});
	ca.behaviour.holding = false;
	await looked;
	t.deepEqual(
		ca.orders.slice(3).map(({status}) => status),
		['invalid', 'valid'],
	);
	t.like(await read(), {fault: null, tries: 0, taken_until: null});
});

sqliteTest(test.serial, 'abandons an order when the daemon stops, without counting a failure', async (t, store) => {
	const {ca, node, read} = await prepare(t, store);
	const certificates = await node();
	ca.behaviour.holding = true;
	certificates.start();
	await waitFor('an order that waits', () => ca.orders[0]?.status === 'processing');
	await certificates.stop();
	t.like(await read(), {taken_until: null, fault: null, tries: 0, chain: null});
	t.is(await store.reader('acme_challenges').first(), undefined);
	ca.behaviour.holding = false;
	await (await node()).renewDue();
	t.truthy((await read()).chain);
});

sqliteTest(
	test.serial,
	'hanging orders do not delay our own names, or others while there is room',
	async (t, store) => {
		const {ca, node, read, zone, now, settings} = await prepare(t, store);
		const links = [1, 2, 3, 4, 5].map(n => `links.d${n}.test`);
		const [one, ...others] = links as [string, string, string, string, string];
		const {id: workspaceId, domainId} = await addWorkspace(store, 'acme');
		const model = await store.reader('domains').where({id: domainId}).first();
		const at = storeTime(now());
		for (const [n, link_host] of links.entries()) {
			const rest = {workspace_id: workspaceId, link_host, verified_at: at, links_ok_at: at};
			await store.database('domains').insert({...model, id: `dom_${n}`, name: link_host.slice(6), ...rest});
			zone[link_host] = {a: ['127.0.0.1']};
		}
		const certificates = await node();
		const statesOf = (name: string) => ca.orders.filter(order => order.name === name).map(({status}) => status);
		/** Waits until the last orders of names have this state. With a stopped clock, there is no second attempt. */
		const reach = async (state: string, names: readonly string[]) => {
			await waitFor(`${state}: ${names}`, async () => {
				const faults = (await listCertificates(store.reader)).flatMap(({fault}) => fault ?? []);
				if (faults.length > 0) {
					throw new Error(faults.join());
				}
				return names.every(name => statesOf(name).at(-1) === state);
			});
		};
		const renew = async (...names: readonly string[]) => {
			for (const name of names) {
				await store.writer.transaction(trx => makeDue(trx, name, storeTime(now())));
			}
			certificates.forget();
		};

		ca.behaviour.holding = [one];
		certificates.start();
		await reach('processing', [one]);
		await reach('valid', [mail, ...others]);
		await waitFor('the certificate of another', () => others.every(name => certificates.has(name)));

		// As many hang as can be in progress at once.
		const [two, three, four, five] = others as [string, string, string, string];
		ca.behaviour.holding = [one, two, three, four];
		await renew(two, three, four);
		await reach('processing', [one, two, three, four]);
		await renew(five, mail);
		await waitFor('our own name', async () => statesOf(mail).length === 2 && (await read()).taken_until === null);
		t.deepEqual(statesOf(five), ['valid'], 'there is no room for it');
		ca.behaviour.holding = [two, three, four];
		await waitFor('an order in the room that there is again', () => statesOf(five).length === 2);
		await reach('valid', [one, five]);

		await certificates.stop();
		const rows = await listCertificates(store.reader);
		t.deepEqual(
			rows.map(({name, issuer, tries, fault, taken_until: until}) => [name, issuer, tries, fault, until]),
			[...links, settings.hostname].map(name => [name, 'Lab CA', 0, null, null]),
		);
		t.deepEqual([two, three, four].map(statesOf), Array(3).fill(['valid', 'processing']));
		t.is(await store.reader('acme_challenges').first(), undefined);
		t.is(ca.accounts.size, 1);
	},
);

sqliteTest(test.serial, 'orders names of verified domains that point to this machine', async (t, store, engine) => {
	const {ca, node, zone, tools} = await prepare(t, store);
	const {domainId} = await addWorkspace(store, 'acme');
	const domain = (changes: object) => store.database('domains').where({id: domainId}).update(changes);
	const certificates = await node();
	const states = async () => {
		tools.advance(engine === 'sqlite' ? 6 * minute : 31 * minute);
		await certificates.renewDue();
		return (await listCertificates(store.reader)).map(({name, unused}) => `${name}: ${unused}`);
	};
	zone['links.example.com'] = {a: ['127.0.0.1']};
	zone['mta-sts.bounce.example.com'] = {a: ['127.0.0.1']};
	zone['other.example.com'] = {a: ['127.0.0.1']};
	await domain({link_host: 'links.example.com'});
	t.deepEqual(await states(), [`${mail}: null`], 'the domain has not proved itself');
	await domain({verified_at: storeTime(Date.now())});
	t.deepEqual(
		await states(),
		[`${mail}: null`, 'mta-sts.bounce.example.com: null'],
		'its check has not seen the link host',
	);
	await domain({links_ok_at: storeTime(Date.now())});
	t.deepEqual(await states(), ['links.example.com: null', `${mail}: null`, 'mta-sts.bounce.example.com: null']);
	t.is(ca.orders.length, 3);

	zone['links.example.com'] = {a: ['127.0.0.1', '192.0.2.7']};
	zone['mta-sts.bounce.example.com'] = 'servfail';
	tools.advance(2 * hour);
	t.deepEqual(await states(), [
		'links.example.com: links.example.com points to 192.0.2.7, which is not this machine',
		`${mail}: null`,
		'mta-sts.bounce.example.com: null',
	]);
	// At two thirds, the others are renewed and this one is not.
	tools.advance(60 * day);
	const life = tools.clock.now();
	ca.behaviour.life = {from: life, until: life + 90 * day};
	await states();
	t.deepEqual(
		ca.orders.slice(3).map(({name}) => name),
		[mail, 'mta-sts.bounce.example.com'],
	);
	// It has expired and nobody needs it.
	tools.advance(40 * day);
	t.is((await states()).length, 3, 'people see why a link host has no certificate');
	await domain({link_host: 'gone.example.com'});
	t.deepEqual(await states(), [
		'gone.example.com: gone.example.com has no address in DNS',
		`${mail}: null`,
		'mta-sts.bounce.example.com: null',
	]);
	zone['gone.example.com'] = {a: ['127.0.0.1']};
	t.is((await states())[0], 'gone.example.com: null');
});

sqliteTest(
	test.serial,
	'renews the certificate of a former link host while it points here and its links are valid',
	async (t, store) => {
		const {ca, node, zone, tools, read, now} = await prepare(t, store);
		const {domainId} = await addWorkspace(store, 'acme');
		const domain = (changes: object) => store.database('domains').where({id: domainId}).update(changes);
		const [former, next] = ['links.example.com', 'go.example.com'] as const;
		zone[former] = zone[next] = {a: ['127.0.0.1']};
		await domain({link_host: former, verified_at: storeTime(now()), links_ok_at: storeTime(now())});
		const certificates = await node();
		/** Returns the names that were ordered after this much time. */
		const orderedIn = async (ms: number) => {
			const {length} = ca.orders;
			tools.advance(ms);
			ca.behaviour.life = {from: now() - hour, until: now() + 90 * day};
			await certificates.renewDue();
			await certificates.renewDue();
			return ca.orders
				.slice(length)
				.map(({name}) => name)
				.toSorted();
		};
		t.deepEqual(await orderedIn(0), [former, mail]);
		await domain({link_host: next});
		t.deepEqual(await orderedIn(hour), [next]);
		t.deepEqual(await orderedIn(61 * day), [next, former, mail].toSorted());
		t.is((await read(former)).unused, null);

		zone[former] = {a: ['192.0.2.7']};
		t.deepEqual(await orderedIn(hour), []);
		t.is((await read(former)).unused, notAsked);
		zone[former] = {a: ['127.0.0.1']};
		t.deepEqual(await orderedIn(hour), []);
		t.is((await read(former)).unused, null);

		t.deepEqual(await orderedIn(61 * day), [next, mail]);
		t.is((await read(former)).unused, notAsked, 'links with it have ended');
		t.true(certificates.has(former), 'it is in use until it ends');
		await orderedIn(40 * day);
		t.is(await findCertificate(store.reader, former), undefined);
	},
);

sqliteTest(
	test.serial,
	'a workspace that keeps changing its link host gets at most seven certificates a day',
	async (t, store) => {
		const {ca, node, zone, tools, lines} = await prepare(t, store);
		const {domainId} = await addWorkspace(store, 'acme');
		const at = storeTime(Date.now());
		const certificates = await node();
		const change = async (n: number, leadsHere = true) => {
			zone[`w${n}.example.com`] = {a: [leadsHere ? '127.0.0.1' : '192.0.2.7']};
			const changes = {link_host: `w${n}.example.com`, verified_at: at, links_ok_at: at};
			await store.database('domains').where({id: domainId}).update(changes);
			await certificates.renewDue();
		};
		// No order finishes, but attempts count as well.
		ca.behaviour.failing = true;
		for (let n = 0; n < 12; n++) {
			await change(n);
		}
		const ofWorkspace = () => ca.orders.filter(({name}) => name.endsWith('.example.com')).length;
		t.is(ofWorkspace(), 7);
		t.like(lines.at(-1), {event: 'certificates_held', names: ['w11.example.com']});
		const held = (await listCertificates(store.reader)).filter(({unused}) => unused === overBudget);
		t.deepEqual(
			held.map(row => [row.name, stateOf(row, tools.clock.now())]),
			[['w11.example.com', 'waiting']],
			'people see what waits; what is not asked for any more has gone',
		);
		// A name that already has a row because of its error is limited too.
		await change(12);
		await change(13, false);
		t.is(
			(await listCertificates(store.reader)).find(({name}) => name === 'w13.example.com')?.unused,
			'w13.example.com points to 192.0.2.7, which is not this machine',
		);
		zone['w13.example.com'] = {a: ['127.0.0.1']};
		tools.advance(6 * minute);
		await certificates.renewDue();
		t.is(ofWorkspace(), 7);
		await node({publicUrl: 'https://www.example.com' as never}).then(other => other.renewDue());
		t.true(
			ca.orders.some(({name}) => name === 'www.example.com'),
			'our own names are always asked for',
		);
		tools.advance(25 * hour);
		ca.behaviour.failing = false;
		await certificates.renewDue();
		t.true(
			ca.orders.some(({name}) => name === 'w13.example.com'),
			'what waited is ordered the next day',
		);
	},
);

sqliteTest(test.serial, 'does not retry a link host each time it is removed and set again', async (t, store) => {
	const {ca, node, zone, tools} = await prepare(t, store);
	const {domainId} = await addWorkspace(store, 'acme');
	const at = storeTime(Date.now());
	const certificates = await node();
	ca.behaviour.failing = true;
	for (let n = 0; n < 8; n++) {
		const link_host = `w${n % 2}.example.com`;
		zone[link_host] = {a: ['127.0.0.1']};
		await store.database('domains').where({id: domainId}).update({link_host, verified_at: at, links_ok_at: at});
		tools.advance(1000);
		await certificates.renewDue();
	}
	const ofWorkspace = () => ca.orders.filter(({name}) => name.endsWith('.example.com')).length;
	t.is(ofWorkspace(), 2);
});

sqliteTest(test.serial, 'stopping does not wait for names whose DNS servers do not respond', async (t, store) => {
	const {node, zone, queries, now} = await prepare(t, store);
	const {id: workspaceId, domainId} = await addWorkspace(store, 'acme');
	const model = await store.reader('domains').where({id: domainId}).first();
	const at = storeTime(now());
	for (let n = 0; n < 100; n++) {
		const name = `d${n}.test`;
		const rest = {workspace_id: workspaceId, link_host: `links.${name}`, verified_at: at, links_ok_at: at};
		await store.database('domains').insert({...model, id: `dom_${n}`, name, ...rest});
		zone[`links.${name}`] = 'timeout';
		zone[`mta-sts.bounce.${name}`] = 'timeout';
	}
	const certificates = await node();
	certificates.start();
	const asked = () => queries.filter(query => query.includes('.d')).length;
	await waitFor('names are asked for', () => asked() > 0);
	await certificates.stop();
	t.true(asked() < 100);
});
