import {randomBytes} from 'node:crypto';
import {readFileSync} from 'node:fs';
import path from 'node:path';
import {createLinks, type Links} from '../../src/compose/links/links.ts';
import {loadSecrets} from '../../src/config/secrets-file.ts';
import {openStore, type Store} from '../../src/store/store.ts';
import {insertMessages, insertWorkspace} from './messages.ts';
import {changeRecipients} from './recipient-rows.ts';

export type SentRecipient = {readonly recipientId: string; readonly address: string; readonly returnPath: string};

/** The links that a daemon of this data folder makes. */
export function linksOf(dataDir: string): Links {
	return createLinks({keys: loadSecrets({dataDir, isExpected: true}), publicUrl: '', random: randomBytes});
}

/** Puts delivered copies into a store, as if they had been sent; answers them with their return paths. */
async function insertDelivered(
	store: Store,
	links: Links,
	addresses: readonly string[],
	domain: string,
): Promise<SentRecipient[]> {
	const {workspaceId} = await insertWorkspace(store, 'sent');
	const perInsert = 5000;
	for (let first = 0; first < addresses.length; first += perInsert) {
		await insertMessages(store, workspaceId, addresses.slice(first, first + perInsert));
	}
	await store.writer.transaction(async trx => {
		await changeRecipients(trx, all => all.where({workspace_id: workspaceId}), {
			state: 'delivered',
			next_attempt_at: null,
			attempts: 1,
		});
	});
	const rows: Array<{id: string; address: string}> = await store
		.reader('recipients')
		.where({workspace_id: workspaceId})
		.select('id', 'address');
	return rows.map(({id, address}) => ({
		recipientId: id,
		address,
		returnPath: `${links.returnPathLocal(id, address)}@${domain}`,
	}));
}

/** The same in a data folder whose daemon does not run, or runs: SQLite takes both. */
export async function insertDeliveredIn(
	dataDir: string,
	addresses: readonly string[],
	domain: string,
): Promise<SentRecipient[]> {
	const store = await openStore({file: path.join(dataDir, 'mailctl.db')});
	try {
		return await insertDelivered(store, linksOf(dataDir), addresses, domain);
	} finally {
		await store.close();
	}
}

/** Where the listener of a running daemon is. */
export function inboundPort(dataDir: string): number {
	const {inbound} = JSON.parse(readFileSync(path.join(dataDir, 'daemon.json'), 'utf8')) as {inbound: string};
	return Number(inbound.split(':').at(-1));
}
