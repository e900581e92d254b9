import {writeFile} from 'node:fs/promises';
import path from 'node:path';
import test from 'ava';
import {dmarcMail, type Reporter, reporters, reportSigner, signingDomainOf} from '../../helpers/aggregate-mails.ts';
import {type Cli, golden, newCli, refused} from '../../helpers/cli.ts';
import {publish, type ToPublish} from '../../helpers/domain-zone.ts';
import {startFakeDns, type Zone} from '../../helpers/fake-dns.ts';
import {parseZone} from '../../helpers/zone-file.ts';

type Shown = ToPublish & {
	readonly required: boolean;
	readonly found: readonly string[];
	readonly ok: boolean;
	readonly state: string;
	readonly problem: string | null;
	readonly ready: boolean;
	readonly note: string | null;
	readonly key: {readonly state: string; readonly algorithm: string} | null;
};
type Domain = {
	readonly id: string;
	readonly name: string;
	readonly state: string;
	readonly verified: boolean;
	readonly return_path_used: boolean;
	readonly next_check_at: string | null;
	readonly records: readonly Shown[];
};

/** A workspace and a DNS whose zone the test fills. */
async function prepare(t: Parameters<typeof newCli>[0], zone: Zone = {}): Promise<Cli & {zone: Zone}> {
	const dns = await startFakeDns(t, zone);
	const cli = await newCli(t, {
		MAILCTL_INBOUND_LISTEN: '127.0.0.1:0',
		MAILCTL_RETURN_PATH_DOMAIN: 'bounces.mail.example',
		MAILCTL_DNS_SERVERS: dns.server,
		MAILCTL_DELIVERY: 'mx',
		MAILCTL_HOSTNAME: 'out.mail.example',
	});
	await cli.run('workspace', 'create', '--name', 'acme');
	return {...cli, zone};
}

test('records that name this machine have no value while its hostname has no dot, in the API too', async t => {
	const cli = await newCli(t, {MAILCTL_HOSTNAME: 'vm', MAILCTL_INBOUND_LISTEN: '127.0.0.1:0'});
	await cli.run('workspace', 'create', '--name', 'acme');
	const {key} = await cli.json<{key: string}>('key', 'create', '--name', 'app');
	const {id, records} = await cli.json<Domain>('domain', 'add', 'shop.example');
	const {url} = await cli.serve();
	const answer = await fetch(`${url}/v1/domains/${id}`, {headers: {authorization: `Bearer ${key}`}});
	const read = (await answer.json()) as Domain;
	for (const each of [records, read.records]) {
		const nameless = each.filter(({ready}) => !ready);
		t.deepEqual(
			nameless.map(({purpose, value}) => [purpose, value]),
			[
				['return_path', ''],
				['spf', ''],
			],
		);
		t.true(nameless.every(({note}) => note?.startsWith('set MAILCTL_HOSTNAME to a full name')));
		t.true(each.every(({ready, value}) => ready === (value !== '')));
	}
});

test('domain: add, list and show before any record is published', async t => {
	const cli = await prepare(t);
	const added = await cli.json<Domain>('domain', 'add', 'Shop.Example');
	t.regex(added.id, /^dom_/);
	t.like(added, {name: 'shop.example', verified: false, state: 'pending'});
	t.deepEqual(
		added.records.map(({purpose}) => purpose),
		['ownership', 'dkim', 'dkim', 'return_path', 'spf', 'dmarc'],
	);
	t.like(added.records[1], {type: 'TXT', name: 'mc1._domainkey.shop.example', required: true, found: []});
	const shown = await cli.json<Domain>('domain', 'show', 'shop.example');
	t.deepEqual(
		shown.records.map(({state, ok, found}) => [state, ok, found]),
		added.records.map(() => ['missing', false, []]),
	);
	t.deepEqual(
		shown.records.map(({name, value}) => [name, value]),
		added.records.map(({name, value}) => [name, value]),
	);
	golden(t, 'domain-show', await cli.text('domain', 'show', 'shop.example'));
	golden(t, 'domain-list', await cli.text('domain', 'list'));
	golden(
		t,
		'domain-add',
		await cli.text('domain', 'add', 'bücher.example', '--return-path-domain', 'r.bücher.example'),
	);
	t.deepEqual(
		(await cli.json<Domain[]>('domain', 'list')).map(({name}) => name),
		['xn--bcher-kva.example', 'shop.example'],
	);

	refused(t, await cli.run('domain', 'add', 'shop.example'), 65, /the domain shop\.example already exists/);
	refused(t, await cli.run('domain', 'show', 'nix.example'), 65, /the domain nix\.example does not exist, add it/);
	refused(
		t,
		await cli.run('domain', 'add', 'localhost'),
		65,
		/localhost is not a valid domain name, use a full name/,
	);
	for (const host of ['b.example', 'bounce.shop.example', 'notb.example']) {
		const run = await cli.run('domain', 'add', 'b.example', '--return-path-domain', host);
		refused(t, run, 64, /it must be a host below b\.example, such as bounce\.b\.example/);
	}
});

test('domain show prints the records found; verify checks at once and exits with 69 until verified', async t => {
	const cli = await prepare(t);
	const {records} = await cli.json<Domain>('domain', 'add', 'shop.example');
	const without = await cli.run('domain', 'verify', 'shop.example');
	t.is(without.code, 69);
	t.regex(without.stdout, /^missing {2}TXT {3}_mailctl\.shop\.example/m);
	t.regex(without.stdout, /publish either one .*:\n {2}TXT _mailctl\.shop\.example\n {2}TXT mc1\._domainkey/);
	t.is(
		without.stderr,
		'mailctl: shop.example is pending, not verified: _mailctl.shop.example is missing, ' +
			'mc1._domainkey.shop.example is missing, publish one of them and verify again\n',
	);

	publish(
		cli.zone,
		records.filter(({purpose}) => purpose === 'ownership' || purpose === 'dmarc'),
	);
	cli.zone['bounce.shop.example'] = {mx: [[5, 'mx.other.example']], fail: {TXT: 'servfail'}};
	cli.zone['mc1._domainkey.shop.example'] = {txt: ['v=DKIM1; k=rsa; p=']};
	golden(t, 'domain-show-mixed', await cli.text('domain', 'show', 'shop.example'));
	const unsigned = await cli.run('domain', 'verify', 'shop.example');
	t.is(unsigned.code, 65);
	t.regex(unsigned.stdout, /^state +verified, not signed, since/m);
	t.is(
		unsigned.stderr,
		'mailctl: shop.example is verified, not signed: mc1._domainkey.shop.example is different, ' +
			'mc2._domainkey.shop.example is missing, publish one of them and verify again, or use --ownership-only\n',
	);
	const verified = await cli.json<Domain>('domain', 'verify', 'shop.example', '--ownership-only');
	t.like(verified, {state: 'verified', verified: true, return_path_used: false});
	t.truthy(verified.next_check_at);
	t.deepEqual(
		verified.records.map(({state, ok, found}) => [state, ok, found.length]),
		[
			['ok', true, 1],
			['different', false, 1],
			['missing', false, 0],
			['different', false, 1],
			['unknown', false, 0],
			['ok', true, 1],
		],
	);

	cli.zone['bounce.shop.example'] = {};
	delete cli.zone['mc1._domainkey.shop.example'];
	publish(
		cli.zone,
		records.filter(({purpose}) => purpose !== 'ownership' && purpose !== 'dmarc'),
	);
	delete cli.zone['_mailctl.shop.example'];
	golden(t, 'domain-verify', await cli.text('domain', 'verify', 'shop.example'));
	t.like((await cli.json<Domain[]>('domain', 'list'))[0], {state: 'verified', return_path_used: true});
	t.like(await cli.json('sender', 'add', 'a@shop.example'), {verified: true}, 'its sender is verified');
});

test('domain verify reports that DNS does not respond; show --zone still prints the zone file', async t => {
	const cli = await prepare(t, {'_mailctl.shop.example': 'servfail', 'mc1._domainkey.shop.example': 'refused'});
	const {records} = await cli.json<Domain>('domain', 'add', 'shop.example');
	const {code, stderr} = await cli.run('domain', 'verify', 'shop.example', '--json');
	t.is(code, 69);
	t.regex(
		stderr,
		/_mailctl\.shop\.example is unknown, .* is unknown, check that DNS responds \(MAILCTL_DNS_SERVERS\)/,
	);
	const zone = parseZone(await cli.text('domain', 'show', 'shop.example', '--zone'));
	t.deepEqual(
		zone.map(({name, type}) => [type, name]),
		records.filter(({purpose}) => purpose !== 'dmarc').map(({name, type}) => [type, name]),
	);
	const shown = await cli.json<{zone: string}>('domain', 'show', 'shop.example', '--zone');
	t.deepEqual(parseZone(shown.zone), zone);
});

test('domain rotate-key: start, repeat, cancel, and choose a selector', async t => {
	const cli = await prepare(t);
	const {records} = await cli.json<Domain>('domain', 'add', 'shop.example');
	publish(cli.zone, records);
	await cli.json('domain', 'verify', 'shop.example');
	const begun = await cli.json<Domain>('domain', 'rotate-key', 'shop.example');
	t.deepEqual(
		begun.records.map(({name, key}) => [name, key?.state, key?.algorithm]),
		[
			['mc3._domainkey.shop.example', 'pending', 'rsa-sha256'],
			['mc4._domainkey.shop.example', 'pending', 'ed25519-sha256'],
		],
	);
	refused(
		t,
		await cli.run('domain', 'rotate-key', 'shop.example'),
		65,
		/new keys of shop\.example are already waiting for DNS \(mc3, mc4\), publish them, or discard them with --cancel/,
	);
	t.deepEqual(await cli.json('domain', 'rotate-key', 'shop.example', '--cancel'), {
		name: 'shop.example',
		cancelled: ['mc3', 'mc4'],
	});
	refused(
		t,
		await cli.run('domain', 'rotate-key', 'shop.example', '--cancel'),
		65,
		/no new keys of shop\.example are waiting for DNS/,
	);
	refused(t, await cli.run('domain', 'rotate-key', 'shop.example', '--selector', 'mc1'), 65, /already has a key mc1/);
	refused(t, await cli.run('domain', 'rotate-key', 'shop.example', '--selector', 'a.b'), 64, /--selector "a\.b"/);

	const text = await cli.text('domain', 'rotate-key', 'shop.example', '--selector', 'june');
	golden(t, 'domain-rotate-key', text);
	t.false(text.includes('PRIVATE'));
	golden(t, 'domain-show-rotating', await cli.text('domain', 'show', 'shop.example'));
	const {records: all} = await cli.json<Domain>('domain', 'show', 'shop.example');
	publish(
		cli.zone,
		all.filter(({key}) => key?.state === 'pending'),
	);
	const {records: now} = await cli.json<Domain>('domain', 'verify', 'shop.example');
	t.deepEqual(
		now.filter(({key}) => key !== null).map(({name, key, ok}) => [name.split('.')[0], key?.state, ok]),
		[
			['mc1', 'retired', true],
			['mc2', 'retired', true],
			['june', 'active', true],
			['june-ed25519', 'active', true],
		],
	);
	golden(
		t,
		'domain-show-rotated',
		(await cli.text('domain', 'show', 'shop.example')).replace(/until \d{4}-\d\d-\d\d/g, 'until 9999-99-99'),
	);
	const {records: again} = await cli.json<Domain>('domain', 'rotate-key', 'shop.example');
	t.deepEqual(
		again.map(({name}) => name.split('.')[0]),
		['mc3', 'mc4'],
	);
});

test('domain remove is refused while senders use the domain', async t => {
	const cli = await prepare(t);
	await cli.json('sender', 'add', 'a@shop.example');
	refused(
		t,
		await cli.run('domain', 'remove', 'shop.example', '--yes'),
		65,
		/shop\.example has a sender \(a@shop\.example\), remove unused senders with mailctl sender remove/,
	);
	await cli.json('sender', 'remove', 'a@shop.example', '--yes');
	refused(t, await cli.run('domain', 'remove', 'shop.example'), 64, /no terminal to confirm it, add --yes/);
	t.deepEqual(await cli.json('domain', 'remove', 'shop.example', '--yes'), {name: 'shop.example', removed: true});
	refused(t, await cli.run('domain', 'remove', 'shop.example', '--yes'), 65, /domain shop\.example does not exist/);
	const store = await cli.store();
	t.deepEqual(await store.reader('dkim_keys'), [], 'its keys are gone');
});

test('domain dmarc lists who sends as the domain, from ingested reports, and what to publish next', async t => {
	const cli = await prepare(t);
	const {records} = await cli.json<Domain>('domain', 'add', 'shop.example');
	golden(t, 'domain-dmarc-none', await cli.text('domain', 'dmarc', 'shop.example'));
	publish(
		cli.zone,
		records.filter(({purpose}) => purpose !== 'dmarc'),
	);
	cli.zone['_dmarc.shop.example'] = {txt: ['v=DMARC1; p=none; rua=mailto:dmarc@other.example; fo=1']};
	cli.zone['out.mail.example'] = {a: ['192.0.2.1']};
	const signer = await reportSigner(...reporters.slice(0, 3).map(signingDomainOf));
	Object.assign(cli.zone, signer.zone);
	await cli.run('domain', 'verify', 'shop.example');

	const today = Math.floor(Date.now() / 86_400_000) * 86_400;
	const stranger = {
		ip: '2001:db8::bad',
		dkim: 'fail',
		spf: 'fail',
		mailFrom: 'evil.example',
		passed: 'pass',
	} as const;
	const mails: Buffer[] = [];
	for (let ago = 1; ago <= 7; ago++) {
		const begin = today - ago * 86_400;
		const reporter = reporters[ago % 3] as Reporter;
		const mail = dmarcMail(reporter, {
			...{org: '', email: '', id: `r${ago}`, domain: 'shop.example', begin, end: begin + 86_399},
			records: [
				{ip: '192.0.2.1', n: 200, dkim: 'pass', spf: 'pass'},
				{ip: '198.51.100.77', n: 3, dkim: 'pass', spf: 'fail'},
				{...stranger, n: 1000 - ago},
			],
		});
		mails.push(await signer.sign(mail, signingDomainOf(reporter)));
	}
	// Nothing says who wrote it, so it is shown, and the advice does not follow it.
	const forged = {ip: '192.0.2.1', n: 999_999_999, dkim: 'fail', spf: 'fail'} as const;
	const begin = today - 86_400;
	mails.push(
		dmarcMail(reporters[0] as (typeof reporters)[number], {
			...{
				org: '',
				email: '',
				id: 'forged',
				domain: 'shop.example',
				begin,
				end: begin + 86_399,
				records: [forged],
			},
		}),
	);
	const files = mails.map((_, n) => path.join(cli.folder, `${n}.eml`));
	await Promise.all(files.map((file, n) => writeFile(file, mails[n] as Buffer)));
	t.like(await cli.json('bounce', 'ingest', ...files), {taken: 8, aggregates: 8, unmatched: 0});
	golden(t, 'domain-dmarc', await cli.text('domain', 'dmarc', 'shop.example'));
	const cost = {ours: 0, others: 6972};
	t.deepEqual(await cli.json('domain', 'dmarc', 'shop.example', '--days', '90'), {
		days: 90,
		reports: 8,
		unsigned: 999_999_999,
		sources: [
			{
				ip: '192.0.2.1',
				count: 1_000_001_399,
				aligned: 1400,
				spf: 1400,
				dkim: 1400,
				ours: true,
				why: 'DKIM none, SPF none',
			},
			{
				...{ip: '2001:db8::bad', count: 6972, aligned: 0, spf: 0, dkim: 0, ours: false},
				why: 'DKIM none, SPF pass for evil.example',
			},
			{ip: '198.51.100.77', count: 21, aligned: 21, spf: 0, dkim: 21, ours: false, why: ''},
		],
		advice: {
			...{policy: 'none', next: 'quarantine', change: true, name: '_dmarc.shop.example', days: 90, cost},
			record: 'v=DMARC1; p=quarantine; rua=mailto:dmarc@other.example,mailto:dmarc@bounce.shop.example; fo=1',
			why: '1,400 of your 1,400 messages are aligned; it stops 6,972 messages of others: make sure that none of them are yours',
		},
		tls: [],
	});
	t.like(await cli.json('domain', 'dmarc', 'shop.example', '--days', '1'), {
		...{days: 1, reports: 0, sources: []},
		advice: {next: 'quarantine', days: 30, cost},
	});
	refused(t, await cli.run('domain', 'dmarc', 'nix.example'), 65, /the domain nix\.example does not exist/);
	refused(t, await cli.run('domain', 'dmarc', 'shop.example', '--days', '91'), 64, /--days/);
});
