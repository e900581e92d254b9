import test from 'ava';
import fc from 'fast-check';
import {parseAddress} from '../../../src/mail/address.ts';
import {codeOf, startApi, type TestApi} from '../../helpers/api.ts';
import {newStore, sqliteTest, storeTest} from '../../helpers/databases.ts';
import {rawHttp} from '../../helpers/raw-http.ts';
import {addKey, addWorkspace} from '../../helpers/workspace.ts';

type Imported = {
	readonly read: number;
	readonly added: number;
	readonly listed: number;
	readonly bad: number;
	readonly columns: object | null;
	readonly faults: ReadonlyArray<{readonly line: number; readonly fault: string}>;
};

const importCsv = (api: TestApi, text: string, {key = api.key, query = ''} = {}) =>
	api.post(`/v1/suppressions/import${query}`, text, key, {'content-type': 'text/csv; charset=utf-8'});

const exported = async (api: TestApi, {key = api.key, query = ''} = {}) =>
	(await api.get(`/v1/suppressions/export${query}`, key)).text;

sqliteTest(
	test,
	'imports a file line by line and reports added and listed addresses and invalid lines',
	async (t, store) => {
		const api = await startApi(t, store);
		await api.post('/v1/suppressions', {recipient: 'there@example.org'});
		const file = [
			'Email,Reason,Created at',
			'a@example.org,bounce,2026-01-02T03:04:05Z',
			'There@Example.org,complaint,',
			'nobody,,',
			'"Größe@example.org",unsubscribed,',
			'b@example.org,by the moon,',
			'',
		].join('\r\n');
		const answer = await importCsv(api, file);
		t.is(answer.status, 200, answer.text);
		t.deepEqual(answer.body, {
			read: 5,
			added: 2,
			listed: 1,
			bad: 2,
			columns: {recipient: 'Email', reason: 'Reason', created_at: 'Created at'},
			faults: [
				{line: 4, fault: 'the address must be a bare address such as name@example.com'},
				{line: 6, fault: 'the reason "by the moon" is unknown; give one with --reason'},
			],
		} satisfies Imported);
		t.like((await importCsv(api, file)).body, {added: 0, listed: 3, bad: 2}, 'repeating changes nothing');
		t.is(codeOf(await api.send({to: 'A@example.org'})), 'recipient_suppressed');
		const rows = await store
			.reader('suppressions')
			.orderBy('address_key')
			.select('address', 'reason', 'source', 'mode');
		t.deepEqual(
			rows.map(({address, reason, source}) => [address, reason, source]),
			[
				['a@example.org', 'hard_bounce', 'import'],
				['Größe@example.org', 'unsubscribe', 'import'],
				['there@example.org', 'manual', 'api'],
			].toSorted(([a = ''], [b = '']) => (a.toLowerCase() < b.toLowerCase() ? -1 : 1)),
		);
		const [act] = await store.reader('audit').where({action: 'suppression.imported'}).orderBy('id');
		t.like(JSON.parse(act.detail), {added: 2, listed: 1});
		t.like((await importCsv(api, 'x@example.org\n', {query: '?reason=complaint'})).body, {
			read: 1,
			added: 1,
			bad: 0,
		});
		t.is((await store.reader('suppressions').where({address: 'x@example.org'}).first()).reason, 'complaint');
	},
);

storeTest(test, 'an export contains the workspace’s whole list and can be imported again', async (t, store) => {
	const api = await startApi(t, store);
	const other = await addKey(store, (await addWorkspace(store, 'globex')).id);
	await importCsv(api, 'foreign@example.org\n', {key: other});
	t.is(await exported(api), 'id,recipient,reason,source,created_at\r\n');
	const addresses = Array.from({length: 2345}, (_, index) => `a${index}@example.org`);
	t.like((await importCsv(api, addresses.join('\n'))).body, {read: 2345, added: 2345});
	await api.post('/v1/suppressions', {recipient: '=cmd@example.org'});
	const text = await exported(api);
	const lines = text.trimEnd().split('\r\n').slice(1);
	t.deepEqual(
		lines.map(line => line.split(',')[1]?.replace(/^'/, '')).toSorted(),
		['=cmd@example.org', ...addresses].toSorted(),
	);
	t.is((await exported(api, {query: '?reason=complaint'})).trim().split('\n').length, 1);
	t.like((await importCsv(api, text, {key: other})).body, {read: 2346, added: 2346, bad: 0});
	const answer = await fetch(`${api.base}/v1/suppressions/export`, {headers: {authorization: `Bearer ${api.key}`}});
	t.is(answer.headers.get('content-type'), 'text/csv; charset=utf-8');
	t.is(await answer.text(), text);
});

storeTest(test, 'a test key imports entries that block only test messages, and exports no others', async (t, store) => {
	const api = await startApi(t, store);
	const key = await addKey(store, api.workspace.id, {mode: 'test'});
	await importCsv(api, 'live@example.org\n');
	t.like((await importCsv(api, 'test@example.org\nlive@example.org\n', {key})).body, {added: 1, listed: 1});
	t.is(codeOf(await api.send({to: 'test@example.org'}, key)), 'recipient_suppressed');
	t.is((await api.send({to: 'test@example.org'})).status, 202);
	t.regex(await exported(api, {key}), /^[^\n]+\n[^\n]+test@example\.org[^\n]+\n$/);
	t.regex(await exported(api), /^[^\n]+\n[^\n]+live@example\.org[^\n]+\n$/);
});

test('a file full of quotes does not hold up other requests', async t => {
	const api = await startApi(t, await newStore(t, 'sqlite'));
	let isRunning = true;
	const importing = importCsv(api, 'x","x","z\n'.repeat(200_000)).finally(() => {
		isRunning = false;
	});
	let answers = 0;
	while (isRunning) {
		// Needs no store, which may be slow on a busy machine: only the turns of this thread count.
		t.is((await api.get('/v1/suppressions?limit=0')).status, 422);
		answers++;
	}
	t.like((await importing).body, {read: 200_000, bad: 200_000});
	t.true(answers > 20, `${answers} answers`);
});

test('refuses a file that is not CSV or too large, and keeps the connection open', async t => {
	const api = await startApi(t, await newStore(t, 'sqlite'));
	const binary = await importCsv(api, 'PK\0\0');
	t.is(codeOf(binary), 'unprocessable_entity');
	t.regex(binary.text, /is not UTF-8 text/);
	t.is(codeOf(await importCsv(api, 'x'.repeat(17 * 1024 * 1024))), 'payload_too_large');
	t.is(codeOf(await importCsv(api, 'a@b.example', {query: '?reason=moon'})), 'validation_failed');
	t.is(codeOf(await api.post('/v1/suppressions/import', {})), 'unsupported_media_type');
	t.is(
		codeOf(
			await api.post('/v1/suppressions/import', 'a', api.key, {
				'content-type': 'text/csv',
				'content-encoding': 'gzip',
			}),
		),
		'unsupported_media_type',
	);
	const port = Number(new URL(api.base).port);
	const head = `POST /v1/suppressions/import HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer ${api.key}\r\n`;
	t.regex(await rawHttp(port, `${head}Content-Length: 0\r\n\r\n`), /^HTTP\/1\.1 400 /);
	const chunked = `${head}Content-Type: text/csv\r\nTransfer-Encoding: chunked\r\n\r\n`;
	t.regex(await rawHttp(port, `${chunked}f\r\na@example.org\r\n\r\n0\r\n\r\n`), /^HTTP\/1\.1 200 /);
	// The request breaks off within its body. Whatever waits for the rest must end too, or the server could not stop.
	t.regex(await rawHttp(port, `${chunked}f\r\na@example.org\r\n\r\nnonsense\r\n`), /^HTTP\/1\.1 400 /);
	t.deepEqual(api.reported, []);
});

test('responds to any bytes and stores nothing but addresses', async t => {
	const store = await newStore(t, 'sqlite');
	const api = await startApi(t, store);
	await fc.assert(
		fc.asyncProperty(
			fc.array(fc.constantFrom('a@b.example', ',', '"', '\n', '\r', ';', '\t', ' ', "'", '\u20ac', 'x')),
			async parts => {
				const answer = await importCsv(api, parts.join(''));
				t.true([200, 400].includes(answer.status), answer.text);
			},
		),
		{numRuns: 60},
	);
	t.deepEqual(api.reported, []);
	const stored: string[] = await store.reader('suppressions').pluck('address');
	t.deepEqual(
		stored.filter(text => !parseAddress(text, {allowsUtf8Local: true}).ok),
		[],
	);
});
