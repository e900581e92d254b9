import {writeFileSync} from 'node:fs';
import {join} from 'node:path';
import test from 'ava';
import {engines, newLocation} from '../helpers/databases.ts';
import {fillFormer, former, formerSchema} from '../helpers/former-store.ts';
import {headerOf, startMailHosts} from '../helpers/mail-hosts.ts';
import {call} from '../helpers/shop.ts';
import {waitFor} from '../helpers/wait.ts';

for (const engine of engines) {
	test(`upgrades a store of commit 2a0e3213, killed with queued messages, and sends them all (${engine})`, async t => {
		const location = engine === 'postgres' ? await newLocation(t, engine) : null;
		const {program, host} = await startMailHosts(
			t,
			{'mx.good.example': {}},
			{},
			{
				// The mail is as old as the fixture.
				MAILCTL_QUEUE_LIFETIME: '3650d',
				MAILCTL_RETENTION_DAYS: '0',
				...(location &&
					'url' in location && {
						MAILCTL_DATABASE_URL: location.url,
						MAILCTL_SECRET_KEY: former.postgres.secretKey,
					}),
			},
		);
		const data = join(program.folder, 'data');
		if (engine === 'sqlite') {
			writeFileSync(join(data, 'mailctl.db'), '', {mode: 0o600});
			writeFileSync(join(data, 'secrets.json'), JSON.stringify(former.sqlite.secrets), {mode: 0o600});
		}
		const store = await fillFormer(location ?? {file: join(data, 'mailctl.db')});
		const ids: string[] = await store.reader('messages').orderBy('id').pluck('id');
		await store.close();
		const refused = await program.run('queue', 'summary');
		t.is(refused.code, 78);
		t.regex(refused.stderr, /created by an older version, stop the daemon and run mailctl migrate/);
		if (engine === 'sqlite') {
			const backup = await program.cli<{schema: string}>('backup', join(program.folder, 'before.tar'));
			t.is(backup.schema, formerSchema);
		}

		const daemon = await program.serve();
		const mx = host('mx.good.example');
		await waitFor('all three copies', () => mx.count() === 3);
		const {key, templateId} = former[engine];
		t.is(ids.length, 3);
		for (const id of ids) {
			await waitFor(`${id} is delivered`, async () => {
				const {status, body} = await call(`${daemon.url}/v1/messages/${id}`, key);
				return status === 200 && (body as {status: string}).status === 'delivered';
			});
		}
		const byAddress = new Map(mx.received.map(({to, data}) => [to.join(), data]));
		t.deepEqual([...byAddress.keys()].toSorted(), [
			'copy@good.example',
			'first@good.example',
			'second@good.example',
		]);
		const mail = byAddress.get('first@good.example') ?? Buffer.alloc(0);
		t.is(headerOf(mail, 'Subject'), 'Alert 1');
		t.regex(headerOf(mail, 'DKIM-Signature'), /d=shop\.example/);
		t.regex(mail.toString('latin1'), /filename="?a\.txt/);
		const second = (await call(`${daemon.url}/v1/messages/${ids[2]}/events`, key)).body as {
			readonly data: ReadonlyArray<{readonly type: string}>;
		};
		t.deepEqual(
			second.data.map(({type}) => type),
			['accepted', 'queued', 'sent', 'delivered'],
		);

		const order = {order: {number: '9', placed_at: '2026-11-25T10:00:00Z'}, customer: {name: 'Jo'}};
		const send = async (to: string) =>
			await call(`${daemon.url}/v1/messages`, key, {from: 'no-reply@shop.example', to, templateId, data: order});
		t.is((await send('third@good.example')).status, 202);
		t.like((await send('never@good.example')).body as object, {error: {code: 'recipient_suppressed'}});
		await waitFor('new mail', () => mx.count() === 4);
		t.is(await daemon.stop(), 0);
		t.is(mx.count(), 4, 'nothing goes twice');
	});
}
