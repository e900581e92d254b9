import {writeFileSync} from 'node:fs';
import {join} from 'node:path';
import test, {type ExecutionContext} from 'ava';
import {makeCertificate} from '../../helpers/certificate.ts';
import {type Cli, golden, newCli, refused} from '../../helpers/cli.ts';
import {startReceiver} from '../../helpers/receiver.ts';
import {insertDue} from '../../helpers/webhooks.ts';

const certificate = makeCertificate('127.0.0.1');

type Endpoint = {readonly id: string; readonly signing_secret: string; readonly active: boolean};

/** A workspace, and commands that may reach loopback. */
async function prepare(t: ExecutionContext): Promise<Cli & {workspaceId: string}> {
	const cli = await newCli(t, {
		MAILCTL_WEBHOOK_ALLOW_CIDRS: '127.0.0.0/8',
		MAILCTL_WEBHOOK_CA_FILE: 'ca.pem',
	});
	writeFileSync(join(cli.folder, 'ca.pem'), certificate.cert);
	const {id: workspaceId} = await cli.json<{id: string}>('workspace', 'create', '--name', 'acme');
	return {...cli, workspaceId};
}

const url = 'https://shop.example/hooks/mail';

test('webhook: add, list, show, disable, enable, remove', async t => {
	const cli = await prepare(t);
	golden(t, 'webhook-add', await cli.text('webhook', 'add', url, '--event', 'delivered', '--event', 'bounced'));
	const added = await cli.json<Endpoint>('webhook', 'add', `${url}/2`, '--event', 'opened');
	t.regex(added.signing_secret, /^whsec_/);
	const both = await cli.json<Endpoint & {events: string[]}>(
		'webhook',
		'add',
		`${url}/3`,
		'--event',
		'delivered,bounced',
	);
	t.deepEqual(both.events, ['delivered', 'bounced']);
	await cli.json('webhook', 'remove', both.id, '--yes');
	golden(t, 'webhook-list', await cli.text('webhook', 'list'));
	t.is((await cli.json<Endpoint[]>('webhook', 'list')).length, 2);
	t.deepEqual(await cli.json('webhook', 'show', added.id), added);
	t.like(await cli.json('webhook', 'disable', added.id), {active: false});
	t.regex(await cli.text('webhook', 'show', added.id), /^state {2,}disabled$/m);
	t.like(await cli.json('webhook', 'enable', added.id), {active: true});

	type Rotated = Endpoint & {readonly previous_secret_expires_at: string | null};
	const rotated = await cli.json<Rotated>('webhook', 'rotate', added.id, '--overlap', '2h');
	t.not(rotated.signing_secret, added.signing_secret);
	t.truthy(rotated.previous_secret_expires_at);
	t.regex(await cli.text('webhook', 'show', added.id), /^old secret until {2,}\d{4}-.+ UTC$/m);
	const ended = await cli.json<Rotated>('webhook', 'rotate', added.id, '--overlap', '0');
	t.is(ended.previous_secret_expires_at, null);
	refused(t, await cli.run('webhook', 'rotate', added.id, '--overlap', '31d'), 64, /use at most 30d/);

	refused(t, await cli.run('webhook', 'remove', added.id), 64, /no terminal to confirm it, add --yes/);
	t.is(await cli.text('webhook', 'remove', added.id, '--yes'), `removed ${added.id}\n`);
	refused(t, await cli.run('webhook', 'show', added.id), 65, /endpoint whe_\w+ not found, see mailctl webhook list/);
});

test('a damaged secret does not hide other endpoints, and rotation repairs it', async t => {
	const cli = await prepare(t);
	const [damaged, sound] = [
		await cli.json<Endpoint>('webhook', 'add', url, '--event', 'opened'),
		await cli.json<Endpoint>('webhook', 'add', url, '--event', 'opened'),
	];
	const {database} = await cli.store();
	await database('webhook_endpoints').where({id: damaged.id}).update({secret: 'v1.1.AAAA'});
	const secrets = async () =>
		(await cli.json<Endpoint[]>('webhook', 'list')).map(({id, signing_secret}) => [id, signing_secret]);
	t.deepEqual(await secrets(), [
		[sound.id, sound.signing_secret],
		[damaged.id, null],
	]);
	t.regex(await cli.text('webhook', 'list'), /^whe_\w+ +secret damaged +opened/m);
	t.regex(
		await cli.text('webhook', 'show', damaged.id),
		/^signing secret +damaged; replace it with .* rotate\s+whe_/m,
	);
	refused(t, await cli.run('webhook', 'test', damaged.id), 74, /a secret in the store cannot be decrypted .*whe_/);
	const {key} = await cli.json<{key: string}>('key', 'create', '--name', 'app');
	const served = await cli.serve();
	const answer = await fetch(`${served.url}/v1/webhooks`, {headers: {authorization: `Bearer ${key}`}});
	t.like(await answer.json(), {data: [{signing_secret: sound.signing_secret}, {signing_secret: null}]});
	const rotated = await cli.json<Endpoint & {previous_secret_expires_at: null}>('webhook', 'rotate', damaged.id);
	t.regex(rotated.signing_secret, /^whsec_/);
	t.is(rotated.previous_secret_expires_at, null, 'nothing that could overlap');
});

test('rejects unknown endpoints, events and deliveries, and invalid URLs', async t => {
	const cli = await prepare(t);
	const add = (...words: readonly string[]) => cli.run('webhook', 'add', ...words);
	refused(
		t,
		await add('http://shop.example', '--event', 'opened'),
		65,
		/is not allowed as a webhook URL, it must be an https URL/,
	);
	refused(t, await add('https://localhost', '--event', 'opened'), 65, /it must not name a local host/);
	refused(t, await add('https://10.0.0.1', '--event', 'opened'), 65, /private, loopback or reserved/);
	refused(t, await add(url, '--event', 'sent'), 64, /--event "sent" is not allowed, use delivered, bounced/);
	refused(t, await add(url), 64, /--event/);
	refused(t, await cli.run('webhook', 'deliveries', 'whe_x'), 65, /endpoint whe_x not found/);
	refused(t, await cli.run('webhook', 'replay', 'whd_x'), 65, /delivery whd_x not found/);
	refused(t, await cli.run('webhook', 'replay'), 64, /exactly one of an id and --since is required/);
	refused(
		t,
		await cli.run('webhook', 'replay', 'whd_x', '--since', '1h'),
		64,
		/exactly one of an id and --since is required/,
	);
	refused(t, await cli.run('webhook', 'replay', '--since', '1h', '--status', 'lost'), 64, /use pending, delivered/);
});

test('webhook test posts a signed example and prints the response or the error', async t => {
	let status = 204;
	const receiver = await startReceiver(t, certificate, {
		answer: (_received, response) => void response.writeHead(status).end(),
	});
	const cli = await prepare(t);
	const {id} = await cli.json<Endpoint>(
		...['webhook', 'add', `https://127.0.0.1:${receiver.port}/x`, '--event', 'clicked', '--event', 'opened'],
	);
	t.regex(
		await cli.text('webhook', 'test', id),
		/^response {2}204\ntook {6}\d+ ms\naddress {3}127\.0\.0\.1\ntls {7}TLSv1\.3 /,
	);
	const [first] = receiver.received;
	t.like(JSON.parse(first?.body.toString() ?? ''), {type: 'clicked', recipient: 'user@example.com', metadata: {}});
	t.regex(String(first?.headers['x-webhook-signature']), /^sha256=/);
	t.like(await cli.json('webhook', 'test', id), {acknowledged: true, status: 204, error: null});

	status = 500;
	const failed = await cli.run('webhook', 'test', id, '--json');
	t.is(failed.code, 69);
	t.like(JSON.parse(failed.stdout), {acknowledged: false, status: 500, error: 'the server responded with 500'});
	t.regex(
		failed.stderr,
		/^mailctl: https:\S+ did not acknowledge it: the server responded with 500, respond with 2xx/,
	);

	const {id: nobody} = await cli.json<Endpoint>('webhook', 'add', 'https://127.0.0.1:1024/', '--event', 'opened');
	const lost = await cli.run('webhook', 'test', nobody);
	t.is(lost.code, 69);
	t.regex(lost.stdout, /^response {2}none$/m);
	t.regex(lost.stderr, /the connection was refused: nothing is listening there/);
	t.deepEqual(await cli.json('webhook', 'deliveries', id), [], 'nothing is stored');
});

test('lists deliveries with their attempts; replays one, or many in batches', async t => {
	const cli = await prepare(t);
	const {id} = await cli.json<Endpoint>('webhook', 'add', url, '--event', 'delivered');
	const {id: other} = await cli.json<Endpoint>('webhook', 'add', url, '--event', 'delivered');
	const store = await cli.store();
	const ids = await insertDue(store, cli.workspaceId, id, 2500);
	await insertDue(store, cli.workspaceId, other, 3);
	const [first = ''] = ids;
	const at = '2026-06-09T10:15:31.500Z';
	await store.database('webhook_attempts').insert([
		{delivery_id: first, generation: 0, n: 1, at, ms: 5000, status: null, error: 'no connection in time'},
		{delivery_id: first, generation: 0, n: 2, at, ms: 12, status: 503, error: 'the server responded with 503'},
	]);
	const ended = {state: 'exhausted', attempts: 5, last_attempt_at: at};
	await store.database('webhook_queue').where({endpoint_id: id}).delete();
	await store.database('webhook_deliveries').where({endpoint_id: id}).update(ended);

	golden(t, 'webhook-deliveries', await cli.text('webhook', 'deliveries', id, '--limit', '3'));
	golden(t, 'webhook-delivery', await cli.text('webhook', 'deliveries', first));
	t.is((await cli.json<unknown[]>('webhook', 'deliveries', id)).length, 25);
	t.deepEqual(await cli.json('webhook', 'deliveries', id, '--status', 'failed'), []);

	const generation = async () => (await store.reader('changes').first('generation')).generation as number;
	const before = await generation();
	t.is(await cli.text('webhook', 'replay', first), `${first} is due now\n`);
	t.true((await generation()) > before, 'a running daemon notices');
	t.is(
		await cli.text('webhook', 'replay', '--since', '1h', '--status', 'exhausted', '--event', 'delivered'),
		'2,499 deliveries are due now\n',
	);
	t.deepEqual(await cli.json('webhook', 'replay', '--since', '1h', '--endpoint', id), {replayed: 2500});
	t.deepEqual(await cli.json('webhook', 'replay', '--since', '1h', '--event', 'opened'), {replayed: 0});
	t.deepEqual(await cli.json('webhook', 'replay', '--since', '1h'), {replayed: 2503});
	t.deepEqual(await cli.json('webhook', 'replay', '--since', '0s'), {replayed: 0});
	const rows = await store
		.reader('webhook_deliveries')
		.where({endpoint_id: id})
		.select('state', 'attempts', 'generation');
	t.true(rows.every(({state, attempts, generation: n}) => state === 'pending' && attempts === 0 && n === 3));
});
