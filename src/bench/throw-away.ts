import {mkdirSync} from 'node:fs';
import {join} from 'node:path';
import {saveTemplate, storedVariant} from '../admin/templates.ts';
import {createWorkspace} from '../admin/workspaces.ts';
import {generateSigningKeys} from '../compose/dkim.ts';
import {loadSettings} from '../config/settings.ts';
import {type Held, openData} from '../data-folder/open.ts';
import {addSender} from '../domains/senders.ts';
import {parseAddress} from '../mail/address.ts';
import type {ActTools} from '../mail/operator.ts';
import {createKey} from '../ops/keys.ts';
import {performIn} from '../ops/operation.ts';
import {compileInWorker, usualCompileTime} from '../render/in-worker.ts';
import type {TemplateVariant} from '../store/templates.ts';
import type {Workload} from './workload.ts';

export const benchSender = 'receipts@shop.example';

/** What a load needs to know of its store. */
export type Shop = {
	readonly dataDir: string;
	readonly workspaceId: string;
	readonly templateId: string;
	readonly key: string;
};

/** Where the throw-away store is: an empty folder, and settings that may name an empty database. */
export type Place = {readonly folder: string; readonly settings?: Readonly<Record<string, string>>};

/** Makes a store with a workspace, a key, a verified sender and the workload's template. */
export async function makeShop(place: Place, {template}: Workload, tools: ActTools): Promise<Shop> {
	const dataDir = dataDirOf(place);
	const [variant, keys] = await Promise.all([compiled(template), generateSigningKeys()]);
	return await withStore(place, async ({store, vault}) => {
		return await store.writer.transaction(async trx => {
			const address = parseAddress(benchSender, {utf8Local: false});
			const workspace = await createWorkspace(trx, tools, {name: 'bench'});
			if (!workspace || !address.ok) {
				throw new Error(`The store in ${place.folder} is not empty.`);
			}
			const workspaceId = workspace.id;
			await addSender(trx, tools, vault, {
				...{workspaceId, address: address.address, name: null, verified: true},
				newKeys: async () => keys,
			});
			const {id: templateId} = await saveTemplate(trx, tools, {
				...{workspaceId, name: 'receipt', variants: [variant], sample: null},
			});
			const scene = {face: 'cli', workspaceId, mode: 'live', tools, trx} as const;
			const {key} = await performIn(createKey, scene, {name: 'bench', mode: 'live'});
			return {dataDir, workspaceId, templateId, key};
		});
	});
}

const dataDirOf = ({folder}: Place): string => join(folder, 'data');

/** Opens the throw-away store for as long as the work takes; its daemon must not run. */
export async function withStore<Result>(place: Place, work: (held: Held) => Promise<Result>): Promise<Result> {
	const dataDir = dataDirOf(place);
	mkdirSync(dataDir, {recursive: true, mode: 0o700});
	const env = {...place.settings, MAILCTL_DATA_DIR: dataDir};
	const loaded = loadSettings({env, cwd: place.folder, hostname: 'localhost', cpus: 1});
	if (!loaded.ok) {
		throw new Error(loaded.problems.join('\n'));
	}
	const held = await openData(loaded.settings, {asRoot: true});
	try {
		return await work(held);
	} finally {
		await held.release();
	}
}

/** Throws where the template has faults. */
export async function compiled(source: Workload['template']): Promise<TemplateVariant> {
	const [made] = await compileInWorker([source], usualCompileTime);
	if (!made?.ok) {
		throw new Error(`The template has faults: ${JSON.stringify(made?.violations)}`);
	}
	return storedVariant(source, made);
}
