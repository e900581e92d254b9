import {existsSync, renameSync, rmSync} from 'node:fs';
import {join} from 'node:path';
import test from 'ava';
import {prepareProgram, welcomeOf} from '../helpers/daemon.ts';
import {call} from '../helpers/shop.ts';
import {waitFor} from '../helpers/wait.ts';

test('if the store is deleted under load, every 202 is in the copy the daemon saves', async t => {
	const program = await prepareProgram(t, {});
	const daemon = await program.serve();
	const {key, from, templateId} = await welcomeOf(program);
	const file = join(program.folder, 'data', 'mailctl.db');
	const accepted: string[] = [];
	let isOver = false;
	void daemon.ended.then(() => {
		isOver = true;
	});
	const load = Array.from({length: 4}, async () => {
		while (!isOver) {
			const body = {from, to: 'user@a.example', templateId};
			const sent = await call(`${daemon.url}/v1/messages`, key, body).catch(() => null);
			if (sent?.status === 202) {
				accepted.push(String(Object(sent.body).id));
			}
		}
	});
	await waitFor('mail is accepted', () => accepted.length > 50);
	rmSync(file);
	t.is(await daemon.ended, 74);
	await Promise.all(load);
	t.regex(await program.log(), /"event":"file_displaced","file":"[^"]*mailctl\.db","how":"removed"/);
	t.false(existsSync(file));
	t.true(existsSync(`${file}-wal`));

	const refused = await program.run('serve');
	t.is(refused.code, 74);
	t.regex(refused.stderr, /mv .*mailctl\.db\.rescued .*mailctl\.db/);
	renameSync(`${file}.rescued`, file);
	rmSync(`${file}-wal`);
	rmSync(`${file}-shm`);
	const again = await program.serve();
	const missing: string[] = [];
	for (const id of accepted) {
		const answer = await fetch(`${again.url}/v1/messages/${id}`, {headers: {authorization: `Bearer ${key}`}});
		if (answer.status !== 200) {
			missing.push(id);
		}
	}
	t.deepEqual(missing, []);
	t.is(await again.stop(), 0);
});
