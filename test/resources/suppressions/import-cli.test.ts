import {randomBytes} from 'node:crypto';
import {readdirSync, writeFileSync} from 'node:fs';
import path from 'node:path';
import test, {type ExecutionContext} from 'ava';
import {signAws} from '../../../src/net/aws-signature.ts';
import {type Cli, newCli, refused} from '../../helpers/cli.ts';
import {engines, newLocation} from '../../helpers/databases.ts';
import {startFakeProvider} from '../../helpers/fake-provider.ts';
import {clearOfMidnight, waitFor} from '../../helpers/wait.ts';

type Counts = {readonly read: number; readonly added: number; readonly listed: number; readonly bad: number};
type Entry = {readonly recipient: string; readonly reason: string; readonly created_at: string};
type Answer = Parameters<typeof startFakeProvider>[1];

/** A workspace, a file with a key, and a stand-in of a provider. */
async function start(t: ExecutionContext, name: string, answer: Answer, settings: Record<string, string> = {}) {
	const provider = await startFakeProvider(t, answer);
	const cli = await newCli(t, {MAILCTL_PROVIDER_HOSTS: `${name}=${provider.at}`, ...settings});
	await cli.json('workspace', 'create', '--name', 'acme');
	writeFileSync(path.join(cli.folder, 'key.txt'), 's3cret\n');
	return {provider, cli, args: ['smarthost', 'import', name, '--key-file', 'key.txt']};
}

const listed = async (cli: Cli) => {
	const all = await cli.json<Entry[]>('suppression', 'list', '--limit', '10000');
	return all.map(({recipient, reason, created_at}) => `${recipient} ${reason} ${created_at.slice(0, 10)}`).toSorted();
};
const cursors = (cli: Cli) => readdirSync(path.join(cli.folder, 'data')).filter(name => name.includes('import'));

/** A list of SendGrid's, by pages as it gives them. */
const pageOf = (all: readonly object[], {searchParams}: URL) => {
	const offset = Number(searchParams.get('offset'));
	return all.slice(offset, offset + Number(searchParams.get('limit')));
};
const people = (count: number) =>
	Array.from({length: count}, (_, n) => ({email: `p${n}@x.example`, created: 1_763_626_532 + n, reason: '550 no'}));

test('Postmark: imports each list with its reason and its time, and uses only the key of Postmark', async t => {
	await clearOfMidnight();
	const item = (EmailAddress: string, CreatedAt: string) => ({EmailAddress, CreatedAt});
	const lists: Readonly<Record<string, object[]>> = {
		HardBounce: [
			item('Hard@x.example', '2025-12-17T08:58:33-05:00'),
			item('no address', '2025-12-17T08:58:33-05:00'),
		],
		SpamComplaint: [
			item('spam@x.example', '2025-12-18T08:58:33-05:00'),
			item('later@x.example', '2999-01-01T00:00:00Z'),
		],
		'ManualSuppression Recipient': [
			item('left@x.example', 'soon'),
			item('hard@x.example', '2025-12-19T08:58:33-05:00'),
		],
		'ManualSuppression Customer': [item('put@x.example', '2025-12-20T08:58:33-05:00')],
	};
	const {provider, cli, args} = await start(t, 'postmark', ({url, headers}) => {
		t.is(headers['x-postmark-server-token'], 's3cret');
		t.is(headers.host, 'api.postmarkapp.com');
		t.is(url.pathname, '/message-streams/outbound/suppressions/dump');
		const {SuppressionReason: reason = '', Origin: origin} = Object.fromEntries(url.searchParams);
		return {body: {Suppressions: lists[origin ? `${reason} ${origin}` : reason] ?? []}};
	});
	const {code, stdout, stderr} = await cli.run(...args, '--json');
	t.is(code, 65, stderr);
	t.regex(stderr, /^mailctl: postmark, entry 2: the address no address must be a bare address/);
	t.regex(stderr, /1 of 7 entries were rejected, fix them and add them with mailctl suppression add$/m);
	t.like(JSON.parse(stdout), {read: 7, added: 5, listed: 1, bad: 1});
	t.is(provider.asked.length, 5);
	const today = new Date().toISOString().slice(0, 10);
	t.deepEqual(await listed(cli), [
		'Hard@x.example hard_bounce 2025-12-17',
		`later@x.example complaint ${today}`,
		`left@x.example unsubscribe ${today}`,
		'put@x.example manual 2025-12-20',
		'spam@x.example complaint 2025-12-18',
	]);
	t.deepEqual(cursors(cli), []);
	const rows = await cli.json<ReadonlyArray<{action: string; detail: object}>>('audit', 'list');
	t.like(rows[0], {action: 'suppression.imported', detail: {added: 5, listed: 1}});
});

test('Mailgun: follows pages up to the empty one, and only on its own host', async t => {
	const base = 'https://api.eu.mailgun.net/v3/mg.shop.example';
	let elsewhere = false;
	const {provider, cli, args} = await start(t, 'mailgun', ({url, headers}) => {
		t.is(headers.authorization, `Basic ${Buffer.from('api:s3cret').toString('base64')}`);
		const list = url.pathname.split('/').at(-1) ?? '';
		const n = Number(url.searchParams.get('n'));
		const created_at = 'Fri, 21 Oct 2025 11:02:55 UTC';
		const items =
			n < 2 ? [{address: `${list}${n}@x.example`, code: '550', error: 'no', created_at, tags: ['*']}] : [];
		const next = elsewhere ? 'https://evil.example/v3/mg.shop.example/bounces?n=1' : `${base}/${list}?n=${n + 1}`;
		return {body: {items, paging: {first: base, next, last: base, previous: base}}};
	});
	const own = [...args, '--region', 'eu', '--domain', 'mg.shop.example'];
	t.regex(await cli.text(...own), /^entries read +6\nadded +6\nalready listed +0\nbad +0\n$/);
	t.deepEqual(await listed(cli), [
		...['bounces0@x.example hard_bounce 2025-10-21', 'bounces1@x.example hard_bounce 2025-10-21'],
		...['complaints0@x.example complaint 2025-10-21', 'complaints1@x.example complaint 2025-10-21'],
		...['unsubscribes0@x.example unsubscribe 2025-10-21', 'unsubscribes1@x.example unsubscribe 2025-10-21'],
	]);
	t.is(provider.asked.length, 9);
	t.deepEqual(provider.asked.slice(0, 2), [
		'/v3/mg.shop.example/bounces?limit=500',
		'/v3/mg.shop.example/bounces?n=1',
	]);
	elsewhere = true;
	refused(
		t,
		await cli.run(...own),
		69,
		/api\.eu\.mailgun\.net responded with 200, but its next page is not valid, run the same/,
	);
	t.is(provider.asked.length, 10);
	refused(t, await cli.run(...args), 64, /mailgun has a list for each domain, name it with --domain/);
});

test('SES: follows NextToken with signed requests, past empty pages, for bounces and complaints', async t => {
	const {provider, cli, args} = await start(t, 'ses', ({url, headers}) => {
		t.is(headers.host, 'email.eu-west-1.amazonaws.com');
		const [, time = ''] = /^(\d{8}T\d{6}Z)$/.exec(String(headers['x-amz-date'])) ?? [];
		const at = Date.parse(time.replace(/^(....)(..)(..T..)(..)/, '$1-$2-$3:$4:'));
		const scope = {keyId: 'AKIA', secret: 's3:cret/+', region: 'eu-west-1', service: 'ses'};
		if (headers.authorization !== signAws({method: 'GET', url}, scope, at).authorization) {
			return {status: 403, body: {message: 'The security token included in the request is invalid.'}};
		}
		const {Reason = '', NextToken: token} = Object.fromEntries(url.searchParams);
		const item = (EmailAddress: string) => ({EmailAddress, Reason, LastUpdateTime: 1_763_626_532.25});
		const SuppressedDestinationSummaries = token === 'a/b+=' ? [] : [item(`${Reason}${token ?? ''}@x.example`)];
		const next = {undefined: 'a/b+=', 'a/b+=': 'c'}[String(token)];
		return {body: {SuppressedDestinationSummaries, ...(next && {NextToken: next})}};
	});
	writeFileSync(path.join(cli.folder, 'key.txt'), 'AKIA:s3:cret/+\n');
	const own = [...args, '--region', 'eu-west-1'];
	t.like(await cli.json<Counts>(...own), {read: 4, added: 4, listed: 0, bad: 0});
	t.is(provider.asked.length, 6);
	t.deepEqual(await listed(cli), [
		...['BOUNCE@x.example hard_bounce 2025-11-20', 'BOUNCEc@x.example hard_bounce 2025-11-20'],
		...['COMPLAINT@x.example complaint 2025-11-20', 'COMPLAINTc@x.example complaint 2025-11-20'],
	]);
	writeFileSync(path.join(cli.folder, 'key.txt'), 'AKIA:other');
	refused(
		t,
		await cli.run(...own),
		78,
		/responded with 403 \(The security token \S+ in the request is invalid\.\), use a key/,
	);
	refused(t, await cli.run(...args), 64, /ses has a list for each region, name it with --region/);
	refused(
		t,
		await cli.run(...args, '--region', 'x.evil'),
		64,
		/--region "x\.evil" is not a region, use the form eu-west-1/,
	);
	writeFileSync(path.join(cli.folder, 'key.txt'), 'AKIA');
	refused(t, await cli.run(...own), 64, /key\.txt contains no valid key, put only KEY_ID:SECRET into a file/);
});

for (const engine of engines) {
	test(`SendGrid: an interrupted import continues where it stopped (${engine})`, async t => {
		const location = await newLocation(t, engine);
		let isDown = true;
		const all = people(1700);
		const settings: Record<string, string> =
			'url' in location
				? {MAILCTL_DATABASE_URL: location.url, MAILCTL_SECRET_KEY: randomBytes(32).toString('base64')}
				: {};
		const {provider, cli, args} = await start(
			t,
			'sendgrid',
			({url, headers}) => {
				t.is(headers.authorization, 'Bearer s3cret');
				if (isDown && url.searchParams.get('offset') === '1000') {
					return {status: 503, body: '<html>'};
				}
				return {body: url.pathname.endsWith('/bounces') ? pageOf(all, url) : []};
			},
			settings,
		);
		refused(
			t,
			await cli.run(...args),
			75,
			/api\.sendgrid\.com responded with 503, run the same command again; it continues/,
		);
		t.is((await listed(cli)).length, 1000);
		t.is(cursors(cli).length, 1);
		const before = provider.asked.length;
		isDown = false;
		t.like(await cli.json<Counts>(...args), {read: 1700, added: 1700, listed: 0, bad: 0});
		t.deepEqual(
			provider.asked.slice(before),
			[
				...['bounces?limit=500&offset=1000', 'bounces?limit=500&offset=1500', 'bounces?limit=500&offset=1700'],
				...['invalid_emails?limit=500', 'spam_reports?limit=500', 'unsubscribes?limit=500'],
			].map(one => `/v3/suppression/${one}`),
		);
		t.is((await listed(cli)).length, 1700);
		t.deepEqual(cursors(cli), []);
		t.like(await cli.json<Counts>(...args), {read: 1700, added: 0, listed: 1700});
	});
}

test('Ctrl-C keeps the pages already stored, and the next import continues after them', async t => {
	let hangs = true;
	const {provider, cli, args} = await start(t, 'sendgrid', ({url}) =>
		hangs && url.searchParams.get('offset') === '500'
			? null
			: {body: url.pathname.endsWith('/bounces') ? pageOf(people(600), url) : []},
	);
	const following = cli.follow(...args);
	await waitFor('the second page is asked for', () => provider.asked.length === 2);
	await following.stop();
	t.is((await listed(cli)).length, 500);
	hangs = false;
	t.like(await cli.json<Counts>(...args), {read: 600, added: 600, listed: 0});
	t.is(provider.asked[2], '/v3/suppression/bounces?limit=500&offset=500');
});

test('starts the list again if the provider no longer knows the position', async t => {
	const ends = [200, 500, 400];
	const {cli, args} = await start(t, 'sendgrid', ({url}) => {
		const status = ends.shift() ?? 200;
		return {status, body: url.pathname.endsWith('/bounces') ? pageOf(people(600), url) : []};
	});
	refused(t, await cli.run(...args), 75, /responded with 500/);
	t.like(await cli.json<Counts>(...args), {added: 600, bad: 0});
	t.is((await listed(cli)).length, 600);
});

test('exits with a code of its own for each refused or garbled response, and loses nothing', async t => {
	let answer: Answer = () => ({body: []});
	const {provider, cli, args} = await start(t, 'sendgrid', (...asked) => answer(...asked));
	const ends: ReadonlyArray<readonly [ReturnType<Answer>, number, RegExp]> = [
		[
			{status: 401, body: {errors: [{message: 'authorization\nrequired'}]}},
			78,
			/responded with 401 \(authorization required\), use a key that can read suppressions/,
		],
		[{status: 403, body: 'no'}, 78, /responded with 403, use a key/],
		[
			{status: 404, body: {message: 'Domain not found'}},
			78,
			/responded with 404 \(Domain not found\), fix --region/,
		],
		[
			{status: 302, headers: {location: 'https://evil.example/'}, body: ''},
			69,
			/responded with 302, but without a suppression list/,
		],
		[{body: '<html>Hello'}, 69, /responded with 200, but without a suppression list, run the same command again/],
		[{body: {result: []}}, 69, /but without a suppression list/],
		[{body: '["a@x.example"]'}, 69, /but without a suppression list/],
		[{body: `[${'0,'.repeat(33 * 1024 ** 2)}0]`}, 75, /api\.sendgrid\.com: its response is too long, run the same/],
		[
			{status: 429, headers: {'retry-after': '99999'}, body: ''},
			75,
			/responded with 429, run the same command again/,
		],
	];
	for (const [given, code, stderr] of ends) {
		answer = () => given;
		refused(t, await cli.run(...args), code, stderr);
	}
	t.deepEqual(await listed(cli), []);

	const many = people(3).map(one => ({...one, email: one.email.repeat(5000)}));
	const before = provider.asked.length;
	answer = ({url}, n) =>
		n === before + 1
			? {status: 429, headers: {'retry-after': '1'}, body: ''}
			: {body: pageOf([...people(2), ...many, {}, {email: 7}], url)};
	const {code, stdout} = await cli.run(...args, '--json');
	t.is(code, 65);
	t.like(JSON.parse(stdout), {added: 2, bad: 20});
	t.deepEqual(new Set(provider.asked.slice(before, before + 2)).size, 1, 'what was put off is asked for again');
});

test('reads the key from a file, standard input or the relay, and fails without one', async t => {
	const keys: unknown[] = [];
	const answer: Answer = ({headers}) => {
		keys.push(headers['x-postmark-server-token']);
		return {body: {Suppressions: []}};
	};
	const relay = {MAILCTL_RELAY_URL: 'smtp://from-relay:from-relay@smtp.postmarkapp.com:587'};
	const {cli} = await start(t, 'postmark', answer, relay);
	const command = ['smarthost', 'import', 'postmark'];
	await cli.json(...command);
	t.is((await cli.runWith('from-stdin\n', ...command, '--key-file', '-')).code, 0);
	t.deepEqual([...new Set(keys)], ['from-relay', 'from-stdin']);
	refused(
		t,
		await cli.run(...command.slice(0, 2), 'sendgrid'),
		64,
		/no key was found for the API of sendgrid, put only the/,
	);
	writeFileSync(path.join(cli.folder, 'key.txt'), 'two\nlines\n');
	refused(t, await cli.run(...command, '--key-file', 'key.txt'), 64, /key\.txt contains no valid key/);
	refused(t, await cli.run(...command.slice(0, 2), 'brevo'), 64, /the provider "brevo" is not allowed/);
});
