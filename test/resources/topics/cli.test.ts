import test from 'ava';
import {golden, newCli, refused} from '../../helpers/cli.ts';
import {waitFor} from '../../helpers/wait.ts';
import {addKey, addWorkspace} from '../../helpers/workspace.ts';

type Topic = {
	readonly id: string | null;
	readonly code: string;
	readonly name: string | null;
	readonly opted_out: number;
};

test('topic: create, list, remove, purge', async t => {
	const cli = await newCli(t);
	const {id: workspace_id} = await cli.json<{id: string}>('workspace', 'create', '--name', 'acme');
	const made = await cli.json<Topic>('topic', 'create', '--code', 'news', '--name', 'Monthly news');
	t.regex(made.id as string, /^usg_/);
	t.like(made, {code: 'news', name: 'Monthly news'});
	golden(t, 'topic-create', await cli.text('topic', 'create', '--code', 'offers_2', '--name', 'Größe & <Offers>'));
	refused(
		t,
		await cli.run('topic', 'create', '--code', 'news', '--name', 'x'),
		65,
		/the topic news already exists, see/,
	);
	refused(
		t,
		await cli.run('topic', 'create', '--code', 'a b', '--name', 'x'),
		64,
		/--code "a b" is not allowed, use 1 to 64/,
	);
	refused(t, await cli.run('topic', 'create', '--code', 'a', '--name', ''), 64, /--name "" is not allowed/);

	const set = {public: true, required: true, description: 'What is new', priority: 'low'};
	t.like(
		await cli.json(
			...[
				'topic',
				'update',
				'news',
				'--public',
				'--required',
				'--description',
				'What is new',
				'--priority',
				'low',
			],
		),
		{name: 'Monthly news', ...set},
	);
	t.like(await cli.json('topic', 'update', 'news', '--no-public', '--name', 'News'), {
		...{name: 'News', public: undefined, required: true, description: 'What is new'},
	});
	t.deepEqual(
		Object.keys(
			await cli.json<Topic>(
				...['topic', 'update', 'news', '--no-required', '--description', 'none', '--priority', 'none'],
			),
		),
		['id', 'code', 'name', 'created_at'],
	);
	await cli.json('topic', 'update', 'news', '--name', 'Monthly news');
	refused(t, await cli.run('topic', 'update', 'news'), 64, /nothing to change/);
	refused(t, await cli.run('topic', 'update', 'nix', '--public'), 65, /topic nix not found/);
	refused(t, await cli.run('topic', 'update', 'news', '--priority', 'urgent'), 64, /use high, normal, low/);

	const {database} = await cli.store();
	const optOuts = Array.from({length: 1500}, (_, n) => `u${n}@x.example`).map(address => ({
		...{workspace_id, code: 'news', address, address_key: address, source: 'one-click', created_at: 'x'},
	}));
	await database.batchInsert('topic_optouts', [...optOuts, {...optOuts[0], code: 'old'}], 500);
	golden(t, 'topic-list', await cli.text('topic', 'list'));
	t.deepEqual(
		(await cli.json<Topic[]>('topic', 'list')).map(({code, opted_out}) => [code, opted_out]),
		[
			['offers_2', 0],
			['news', 1500],
			['old', 1],
		],
	);

	refused(t, await cli.run('topic', 'remove', 'news'), 64, /add --yes to confirm/);
	t.is(await cli.text('topic', 'remove', 'news', '--yes'), 'removed news; its opt-outs are retained\n');
	refused(
		t,
		await cli.run('topic', 'remove', made.id as string, '--yes'),
		65,
		/topic usg_\w+ not found, see mailctl topic list/,
	);
	t.is((await database('topic_optouts').where({code: 'news'})).length, 1500);
	await cli.json('topic', 'create', '--code', 'news', '--name', 'News again');
	t.is((await cli.json<Topic[]>('topic', 'list'))[0]?.opted_out, 1500);

	refused(t, await cli.run('topic', 'purge', 'news'), 64, /add --yes to confirm/);
	t.deepEqual(await cli.json('topic', 'purge', 'news', '--yes'), {code: 'news', forgotten: 1500});
	t.deepEqual(await cli.json('topic', 'purge', 'news', '--yes'), {code: 'news', forgotten: 0});
	t.is(await cli.text('topic', 'purge', 'old', '--yes'), 'deleted 1 opt-outs of old\n');
	refused(
		t,
		await cli.run('topic', 'purge', 'nix', '--yes'),
		65,
		/topic nix not found, and nobody has opted out of it/,
	);
	t.deepEqual(await database('topic_optouts'), []);
});

test('a running daemon notices a created or removed topic within a second', async t => {
	const cli = await newCli(t, {MAILCTL_ROLES: 'api'});
	await cli.json('migrate');
	const store = await cli.store();
	const workspace = await addWorkspace(store, 'shop');
	const key = await addKey(store, workspace.id);
	const {url} = await cli.serve();
	const codeOf = async () => {
		const response = await fetch(`${url}/v1/messages`, {
			method: 'POST',
			headers: {authorization: `Bearer ${key}`, 'content-type': 'application/json'},
			body: JSON.stringify({
				...{
					from: workspace.sender,
					to: 'a@x.example',
					templateId: workspace.templateId,
					unsubscribeGroup: 'news',
				},
			}),
		});
		return response.ok ? 'accepted' : ((await response.json()) as {error: {code: string}}).error.code;
	};
	t.is(await codeOf(), 'unknown_unsubscribe_group');
	await cli.json('topic', 'create', '--code', 'news', '--name', 'News');
	await waitFor('the topic', async () => (await codeOf()) === 'accepted');
	await cli.json('topic', 'remove', 'news', '--yes');
	await waitFor('its end', async () => (await codeOf()) === 'unknown_unsubscribe_group');
	t.pass();
});
