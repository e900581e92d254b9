import {relative} from 'node:path';
import type {Knex} from 'knex';
import {generateSigningKeys} from '../compose/dkim.ts';
import {addSender} from '../domains/senders.ts';
import {storeTime} from '../kit/time.ts';
import {parseAddress} from '../mail/address.ts';
import type {Mode} from '../mail/message.ts';
import type {ActTools} from '../mail/operator.ts';
import {createKey} from '../ops/keys.ts';
import {performIn} from '../ops/operation.ts';
import {deleteApiKey, listApiKeys} from '../store/api-keys.ts';
import {findSender} from '../store/domains.ts';
import {endFirstStart, findFirstStart, hasBeenUsed, insertFirstStart, resumeFirstStart} from '../store/first-starts.ts';
import type {Vault} from '../store/sealed.ts';
import type {Store} from '../store/store.ts';
import {findTemplate} from '../store/templates.ts';
import {findUserByEmail} from '../store/users.ts';
import {hasWorkspace} from '../store/workspaces.ts';
import {addUser, linkFor} from '../users/users.ts';
import {readSample, sampleSender, sampleTemplate} from './sample.ts';
import {saveTemplate} from './templates.ts';
import {createWorkspace} from './workspaces.ts';

/** What a fresh store was given, for the one time that its keys can be shown. */
export type Bootstrapped = {
	readonly workspaceId: string;
	/** Null: mail leaves this machine, so that only an address of the operator's own will do. */
	readonly sender: string | null;
	readonly templateId: string;
	readonly liveKey: string;
	readonly testKey: string;
	/** Of a link that logs in to the dashboard; null: there is no dashboard. */
	readonly logInToken: string | null;
};

/** The first user: the person who starts the program may do everything, and adds the other users. */
export const firstUser = 'admin@localhost';

type FirstStartOptions = {
	/** Mail is captured, so that a sender of a reserved domain will do. */
	readonly captures: boolean;
	readonly dashboard: boolean;
	/**
	 * No other process can be in the middle of the store's first start: the caller has the lock of SQLite's data
	 * folder.
	 */
	readonly isAlone: boolean;
	/** The file for first keys exists: a start that broke off got as far as writing them. */
	readonly hasKeysFile: boolean;
};

/** Longer than any start takes: by then a process that has not shown its first keys never will. */
const maxStartMs = 60_000;
const firstKeyName = 'first';

/**
 * Gives a store without any workspace what a first mail needs: workspace, template, two keys, the dashboard's first
 * user and, where mail is captured, a verified sender of a reserved domain. Of two processes that try at once one does
 * it. The caller shows the result, then calls `endFirstStart`; without that the next start does what is left. Returns
 * `null` where there is nothing to show.
 */
export async function bootstrap(
	store: Store,
	tools: ActTools,
	vault: Vault,
	options: FirstStartOptions,
): Promise<Bootstrapped | null> {
	if (await hasWorkspace(store.reader)) {
		return await resumeBootstrap(store, tools, vault, options);
	}
	const {captures, dashboard} = options;
	const [keys, template] = await Promise.all([captures ? generateSigningKeys() : null, readSample()]);
	const address = parseAddress(sampleSender, {utf8Local: false});
	if (!address.ok) {
		throw new Error(`${sampleSender} is no address.`);
	}

	return await store.writer.transaction(async trx => {
		// The name is unique: on PostgreSQL a second process waits here until the first one's transaction has ended.
		const workspace = (await hasWorkspace(trx)) ? undefined : await createWorkspace(trx, tools, {name: 'default'});
		if (!workspace) {
			return null;
		}
		const workspaceId = workspace.id;
		if (keys) {
			await addSender(trx, tools, vault, {
				workspaceId,
				address: address.address,
				name: null,
				verified: true,
				newKeys: async () => keys,
			});
		}
		const saved = await saveTemplate(trx, tools, {workspaceId, ...template, name: sampleTemplate});
		await insertFirstStart(trx, {workspace_id: workspaceId, begun_at: storeTime(tools.clock.now())});
		return {
			workspaceId,
			sender: captures ? sampleSender : null,
			templateId: saved.id,
			...(await createFirstAccess(trx, tools, vault, {workspaceId, dashboard})),
		};
	});
}

/**
 * Continues a first start that broke off before it showed its keys. The store has only their hashes, so new keys and a
 * new link take their place. `null` where the first start ended, may still be under way, or led to somebody using the
 * store.
 */
async function resumeBootstrap(
	store: Store,
	tools: ActTools,
	vault: Vault,
	{dashboard, isAlone, hasKeysFile}: FirstStartOptions,
): Promise<Bootstrapped | null> {
	const broken = await findFirstStart(store.reader);
	const now = tools.clock.now();
	if (!broken || (!isAlone && now - Date.parse(broken.begun_at) < maxStartMs)) {
		return null;
	}
	const workspaceId = broken.workspace_id;
	return await store.writer.transaction(async trx => {
		if (!(await resumeFirstStart(trx, broken, storeTime(now)))) {
			return null;
		}
		const template = await findTemplate(trx, workspaceId, {name: sampleTemplate});
		if (hasKeysFile || template === undefined || (await hasBeenUsed(trx))) {
			await endFirstStart(trx);
			return null;
		}
		for (const {id, name} of await listApiKeys(trx, workspaceId)) {
			if (name === firstKeyName) {
				await deleteApiKey(trx, workspaceId, id);
			}
		}
		return {
			workspaceId,
			sender: (await findSender(trx, workspaceId, sampleSender)) ? sampleSender : null,
			templateId: template.id,
			...(await createFirstAccess(trx, tools, vault, {workspaceId, dashboard})),
		};
	});
}

/** Creates both keys and, for the dashboard, a link for the first user, who is added where there is none. */
async function createFirstAccess(
	trx: Knex.Transaction,
	tools: ActTools,
	vault: Vault,
	{workspaceId, dashboard}: {readonly workspaceId: string; readonly dashboard: boolean},
): Promise<Pick<Bootstrapped, 'liveKey' | 'testKey' | 'logInToken'>> {
	const create = async (mode: Mode) => {
		const context = {face: 'cli', workspaceId, mode, tools, vault: async () => vault, trx} as const;
		return (await performIn(createKey, context, {name: firstKeyName, mode})).key;
	};
	const link = async () => {
		const user = await findUserByEmail(trx, firstUser);
		const first = {email: firstUser, role: 'admin', workspaceId: null, isVouched: true} as const;
		return user ? await linkFor(trx, tools, user) : await addUser(trx, tools, first);
	};
	return {
		liveKey: await create('live'),
		testKey: await create('test'),
		logInToken: dashboard ? ((await link())?.token ?? null) : null,
	};
}

export type WelcomeInput = Omit<Bootstrapped, 'logInToken'> & {
	/** Logs in to the dashboard once; null: no dashboard. */
	readonly link: string | null;
	/** Where the API is or will be, without a slash at the end. */
	readonly url: string;
	/** How the CLI is called from here, see `commandName`. */
	readonly command: string;
	/** Whether this goes to a file, not to a terminal. */
	readonly inFile: boolean;
};

/**
 * What a fresh store's first start says, once: at most 80 columns, and a command that can be pasted as it is: each
 * of its lines is a whole word of the shell, so that neither a script nor a hand can take half a string of it.
 */
export function welcome(input: WelcomeInput): string[] {
	const {sender, liveKey, testKey, command, inFile, link} = input;
	return [
		...(link === null ? [] : logIn(link, command)),
		...(sender === null
			? ['This is a fresh store. It got a workspace (default), a template (sample)', 'and two API keys:']
			: [
					'This is a fresh store. It got a workspace (default), a sender',
					`(${sender}), a template (sample) and two API keys:`,
				]),
		'',
		`  live  ${liveKey}`,
		`  test  ${testKey}`,
		'',
		inFile
			? 'Keep them elsewhere and remove this file. To make another:'
			: 'They are shown only this once. To make another:',
		'',
		`  ${command} key create --name app`,
		'',
		...(sender === null ? ownDomain(command) : firstMail({...input, sender})),
	];
}

function logIn(link: string, command: string): string[] {
	return [
		'Open the dashboard with this link. It logs in once, within an hour, as',
		`${firstUser}:`,
		'',
		`  ${link}`,
		'',
		'For another link:',
		'',
		`  ${command} user link ${firstUser}`,
		'',
	];
}

function firstMail({sender, templateId, liveKey, url, command}: WelcomeInput & {readonly sender: string}): string[] {
	return [
		'Send a first mail; paste this as it stands:',
		'',
		`curl -sS ${url}/v1/messages \\`,
		`  -H 'Authorization: Bearer ${liveKey}' \\`,
		"  -H 'Content-Type: application/json' \\",
		`  -d '{"from":"${sender}","to":"you@example.org",'\\`,
		`'"templateId":"${templateId}",'\\`,
		`'"data":{"name":"Zoë","url":"https://shop.example/orders/1042",'\\`,
		`'"order":{"number":"1042","currency":"EUR","total":42.9,'\\`,
		`'"placed_at":"2026-06-09T17:30:00Z","items":['\\`,
		`'{"name":"Notebook, ruled","quantity":2,"price":12.5},'\\`,
		`'{"name":"Fountain pen","quantity":1,"price":17.9}]}}}'`,
		'',
		'Then see what became of it:',
		'',
		`  ${command} message list`,
		`  ${command} message show ID`,
		`  ${command} message raw ID > first.eml`,
		'',
		'Mail is captured in the data folder and delivered nowhere until MAILCTL_DELIVERY',
		'is mx or relay: see README.md, Sending for real.',
	];
}

function ownDomain(command: string): string[] {
	return [
		'Mail needs a sender of your own domain. Publish the DNS records that the first',
		'command prints, then run the others:',
		'',
		`  ${command} domain add YOUR-DOMAIN`,
		`  ${command} domain verify YOUR-DOMAIN`,
		`  ${command} sender add no-reply@YOUR-DOMAIN`,
		'',
		'README.md, Sending for real, has the rest.',
	];
}

/** How to call this program again from the same folder. */
export function commandName(script: string, cwd: string): string {
	const path = relative(cwd, script);
	if (path === 'bin/mailctl.js') {
		return 'node bin/mailctl.js';
	}
	return path.startsWith('node_modules') ? 'npx mailctl' : 'mailctl';
}
