import type {Claims} from '../../src/compose/links/tokens.ts';
import {idOf, type TestApi} from './api.ts';
import {newId} from './workspace.ts';

export const at = '2026-06-09T10:15:30.123Z';
export const year = 365 * 86_400_000;
export const oneClick = 'List-Unsubscribe=One-Click';
export const urlencoded = 'application/x-www-form-urlencoded';

export type Shown = {readonly status: number; readonly html: string; readonly headers: Headers};

/** A mail that was accepted, and its link. */
export type Mail = {readonly id: string; readonly claims: Claims; readonly path: string};

export async function addTopic(
	{store, workspace}: TestApi,
	code = 'news',
	name = 'Product news',
	more: Readonly<Record<string, string>> = {},
): Promise<string> {
	const id = newId('usg');
	await store.database('topics').insert({id, workspace_id: workspace.id, code, name, created_at: at, ...more});
	return id;
}

export async function sendMail(
	api: TestApi,
	{
		to = 'user@example.org',
		topicId = null,
		...fields
	}: {to?: string; topicId?: string | null; [name: string]: unknown},
	key?: string,
): Promise<Mail> {
	const id = idOf(await api.send({to, ...fields}, key));
	const claims = {
		workspaceId: api.workspace.id,
		messageId: id,
		topicId,
		role: 'to',
		address: to,
		expiresAt: Date.now() + year,
	} as const;
	return {id, claims, path: pathOf(api, claims)};
}

export function pathOf({links}: TestApi, claims: Claims): string {
	const {pathname, search} = new URL(links.unsubscribeUrl(claims));
	return pathname + search;
}

export function tokenOf(path: string): string {
	return path.slice(path.indexOf('=') + 1);
}

export async function show({base}: TestApi, path: string, init: RequestInit = {}): Promise<Shown> {
	const response = await fetch(base + path, {redirect: 'error', ...init});
	return {status: response.status, html: await response.text(), headers: response.headers};
}

export const press = (api: TestApi, path: string, body: string) =>
	show(api, path, {method: 'POST', headers: {'content-type': urlencoded}, body});

/** The suppressions and opt-outs of all workspaces, each as one text. */
export async function lists({store}: TestApi): Promise<string[]> {
	const suppressions: Array<Record<string, string>> = await store.database('suppressions').orderBy('id').select('*');
	const optOuts: Array<Record<string, string>> = await store.database('topic_optouts').orderBy('code').select('*');
	return [
		...suppressions.map(row => `${row.address_key} all ${row.reason} ${row.source}`),
		...optOuts.map(row => `${row.address_key} ${row.code} ${row.source}`),
	];
}

export async function events(api: TestApi, messageId: string): Promise<unknown[]> {
	const rows: Array<{detail: string}> = await api.store
		.database('events')
		.where({message_id: messageId, type: 'unsubscribed'})
		.orderBy('id')
		.select('detail');
	return rows.map(({detail}) => JSON.parse(detail));
}
