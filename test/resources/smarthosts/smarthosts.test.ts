import test from 'ava';
import {apiKeyHash} from '../../../src/mail/api-key.ts';
import {performIn, Refused} from '../../../src/resources/operation.ts';
import {addSmarthost, removeSmarthost, rotateSmarthost} from '../../../src/resources/smarthosts/rules.ts';
import {findSmarthost, findSmarthostByToken, readProviders} from '../../../src/resources/smarthosts/store.ts';
import {createWorkspace} from '../../../src/resources/workspaces/rules.ts';
import {storeTest} from '../../helpers/databases.ts';
import {testTools, testVault} from '../../helpers/tools.ts';

storeTest(
	test,
	'limits smarthosts to 50 per workspace and 50 global ones, and seals their secrets',
	async (t, store) => {
		const tools = testTools();
		const write = store.writer.transaction;
		const acme = (await write(trx => createWorkspace(trx, tools, {name: 'acme'})))?.id as string;
		const other = (await write(trx => createWorkspace(trx, tools, {name: 'other'})))?.id as string;
		const context = {face: 'cli', mode: 'live', tools, vault: async () => testVault} as const;
		const add = (workspaceId: string | null, provider: 'ses' | 'postmark') =>
			write(trx => performIn(addSmarthost, {...context, workspaceId, trx}, {provider}));

		const {row, token, secret} = await add(acme, 'postmark');
		t.is((await findSmarthostByToken(store.reader, apiKeyHash(token ?? '')))?.id, row.id);
		t.is(testVault.open(row.id, row.secret ?? ''), secret ?? '');
		t.is((await add(null, 'ses')).secret, null);
		const providers = await readProviders(store.reader);
		t.deepEqual([providers.size, providers.get(null), providers.get(acme)], [2, ['ses'], ['postmark']]);

		const at = (workspaceId: string) => ({...context, workspaceId});
		const foreign = write(trx => performIn(rotateSmarthost, {...at(other), trx}, {id: row.id}));
		await t.throwsAsync(foreign, {instanceOf: Refused, message: /./}, 'of another workspace');
		const renewed = await write(trx => performIn(rotateSmarthost, {...at(acme), trx}, {id: row.id}));
		t.is(await findSmarthostByToken(store.reader, apiKeyHash(token ?? '')), undefined, 'the former URL is gone');
		const kept = await write(trx => performIn(rotateSmarthost, {...at(acme), trx}, {id: row.id, keep_url: true}));
		t.is(kept.token, null);
		t.is((await findSmarthostByToken(store.reader, apiKeyHash(renewed.token ?? '')))?.id, row.id);
		t.not(kept.secret, renewed.secret);

		for (let n = 1; n < 50; n++) {
			await add(acme, 'ses');
		}
		await t.throwsAsync(add(acme, 'ses'), {instanceOf: Refused, message: 'There are already 50 smarthosts.'});
		await add(other, 'ses');
		await write(trx => performIn(removeSmarthost, {...at(acme), trx}, {id: row.id}));
		t.is(await findSmarthost(store.reader, acme, row.id), undefined);
		await add(acme, 'ses');
	},
);
