import type {Command} from 'commander';
import {createTopic, purgeTopic, removeTopic} from '../admin/topics.ts';
import {storedTime, topicView} from '../api/views.ts';
import {lookUpTopic} from '../store/templates.ts';
import {countOptOuts, listTopics, type Topic} from '../store/topics.ts';
import {CliError} from './fault.ts';
import {label, topicCode} from './options.ts';
import {verb, yesOption} from './program.ts';
import {action, type Session} from './session.ts';
import {grouped, type Noun} from './text.ts';

const mostTopics = 10_000;

export function topicCommands(topic: Command): void {
	verb(topic, 'create', 'Create a topic', "mailctl topic create --code news --name 'Monthly news'")
		.requiredOption('--code <code>', 'what sends name: letters, digits, hyphens, underscores', topicCode)
		.requiredOption('--name <name>', 'what recipients see', label('--name'))
		.action(
			action<{code: string; name: string}, []>(async (session, {code, name}) => {
				const {id: workspaceId} = await session.workspace();
				const made = await session.write(trx => createTopic(trx, session.tools, {workspaceId, code, name}));
				if (!made) {
					throw new CliError('data', `there is a topic ${code} already`, 'see mailctl topic list');
				}
				session.one(topics, made);
			}),
		);

	verb(topic, 'list', 'List topics, newest first, and how many opted out', 'mailctl topic list').action(action(list));

	yesOption(
		verb(
			topic,
			'remove <id|code>',
			'Remove a topic; its opt-outs hold again if its code comes back',
			'mailctl topic remove news --yes',
		),
	).action(
		action<{yes?: boolean}, [string]>(async (session, {yes}, text) => {
			const id = await session.idOf('usg', text);
			const {id: workspaceId} = await session.workspace();
			const question = `Remove the topic ${text}? Unsubscribe links of its mail will suppress for all mail.`;
			await session.confirm(question, yes);
			const by = id === undefined ? {code: text} : {id};
			const removed = await session.write(trx => removeTopic(trx, session.tools, workspaceId, by));
			if (!removed) {
				throw new CliError('data', `there is no topic ${text}`, 'see mailctl topic list');
			}
			session.show({...topicView(removed, storedTime), removed: true}, () => [
				`removed ${removed.code}, its opt-outs are kept`,
			]);
		}),
	);

	yesOption(
		verb(
			topic,
			'purge <code>',
			'Forget who opted out of a code: they get its mail again',
			'mailctl topic purge news --yes',
		),
	).action(action<{yes?: boolean}, [string]>(purge));
}

/** Codes without a topic are shown too: opt-outs outlive it. */
async function list(session: Session): Promise<void> {
	const {id: workspaceId} = await session.workspace();
	const reader = await session.reader();
	const optOuts = await countOptOuts(reader, workspaceId);
	const found = await listTopics(reader, {workspaceId, after: null, limit: mostTopics});
	const rows = found.map(row => ({...row, opted_out: optOuts.get(row.code) ?? 0}));
	const known = new Set(found.map(({code}) => code));
	const removed = [...optOuts].filter(([code]) => !known.has(code)).sort(([a], [b]) => (a < b ? -1 : 1));
	session.list(counted, [
		...rows,
		...removed.map(([code, opted_out]) => ({id: null, code, name: null, opted_out, created_at: null})),
	]);
}

async function purge(session: Session, {yes}: {yes?: boolean}, code: string): Promise<void> {
	const {id: workspaceId} = await session.workspace();
	const reader = await session.reader();
	const known = (await countOptOuts(reader, workspaceId)).get(code) ?? 0;
	if (known === 0 && !(await lookUpTopic(reader, workspaceId, code))) {
		throw new CliError('data', `there is no topic ${code}, and nobody opted out of it`, 'see mailctl topic list');
	}
	await session.confirm(`Forget ${grouped(known)} opt-outs of ${code}? These people will get its mail again.`, yes);
	const forgotten = await purgeTopic(session.write, session.tools, workspaceId, code);
	session.show({code, forgotten}, () => [`forgot ${grouped(forgotten)} opt-outs of ${code}`]);
}

const topics: Noun<Topic> = {
	none: 'no topics, mailctl topic create makes one',
	json: row => topicView(row, storedTime),
	fields: [
		{name: 'id', cell: row => row.id},
		{name: 'code', cell: row => row.code},
		{name: 'name', cell: row => row.name},
	],
};

/** A topic, or the code of one that was removed, and how many opted out of it. */
type Counted = (Topic | {readonly id: null; readonly code: string; readonly name: null; readonly created_at: null}) & {
	readonly opted_out: number;
};

const counted: Noun<Counted> = {
	none: 'no topics, mailctl topic create makes one',
	json: row => (row.id === null ? row : {...topicView(row, storedTime), opted_out: row.opted_out}),
	fields: [
		{title: 'ID', cell: row => row.id ?? 'removed', id: true},
		{title: 'CODE', cell: row => row.code, cut: true},
		{title: 'NAME', cell: row => row.name, cut: true},
		{title: 'OPTED OUT', cell: row => grouped(row.opted_out), right: true},
	],
};
