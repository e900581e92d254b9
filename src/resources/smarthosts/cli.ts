import {CliError} from '../../cli/fault.ts';
import {readInput} from '../../cli/files.ts';
import {oneOf} from '../../cli/options.ts';
import type {CliCommand} from '../../cli/program.ts';
import type {Session} from '../../cli/session.ts';
import {type Noun, shortTime} from '../../cli/terminal-text.ts';
import {findNamed, installationVerb} from '../../cli/verbs.ts';
import {loadBounceRules} from '../../config/bounce-rules.ts';
import {linkBase} from '../../config/derive.ts';
import {eventsUrl, guessProvider, providers, setups} from '../../inbound/providers/providers.ts';
import {eventBytes, readEvent} from '../../inbound/providers/read-event.ts';
import {reportRows} from '../../inbound/reports/explain.ts';
import {createClassify} from '../../mail/classify-reply.ts';
import {optionalEvents, type ProviderName, providerNames} from '../../mail/provider.ts';
import {liveDaemon} from '../../store/data-folder/daemon-file.ts';
import {importCommand} from './import-cli.ts';
import {addSmarthost, type NewSmarthost, removeSmarthost, rotateSmarthost} from './rules.ts';
import {listSmarthosts, type Smarthost} from './store.ts';

export function smarthostCommands(smarthost: CliCommand): void {
	installationVerb(smarthost, addSmarthost, {
		by: 'provider',
		sample: 'mailctl smarthost add ses',
		shows: showNew,
	});

	smarthost
		.verb('list', 'List relays that post events, newest first')
		.sample('mailctl smarthost list')
		.does(async session => {
			const workspaceId = (await session.chosenWorkspace())?.id ?? null;
			session.list(smarthosts, await listSmarthosts(await session.reader(), workspaceId));
		});

	smarthost
		.verb('show <id>', 'Show a relay: its workspace, accepted events and last event')
		.sample('mailctl smarthost show smh_06f…')
		.does<object, [string]>(async (session, _options, text) =>
			session.printRow(smarthosts, await findNamed(session, 'smarthost', listSmarthosts, text)),
		);

	smarthost
		.verb('test <file>', 'Show how a recorded event is read; nothing is stored')
		.sample('mailctl smarthost test bounce.json')
		.option(
			'--provider <name>',
			'the provider that sent it; default: recognized by its format',
			oneOf('--provider', providerNames),
		)
		.does<TestOptions, [string]>(test);

	importCommand(smarthost);

	const byId = {
		by: 'id',
		find: (session: Session, text: string) => findNamed(session, 'smarthost', listSmarthosts, text),
	};
	installationVerb(smarthost, rotateSmarthost, {
		...byId,
		sample: 'mailctl smarthost rotate smh_06f…',
		shows: showNew,
	});
	installationVerb(smarthost, removeSmarthost, {
		...byId,
		sample: 'mailctl smarthost remove smh_06f… --yes',
		question: (_session, _text, {id, provider}) =>
			`Remove ${id}? Events that ${provider} posts to its URL will be refused.`,
		shows(session, {id, provider}) {
			session.show({id, removed: true}, () => [`removed ${id} (${provider})`]);
		},
	});
}

type TestOptions = {readonly provider?: ProviderName};

async function test(session: Session, options: TestOptions, file: string): Promise<void> {
	const {provider, events} = await readPost(file, options.provider);
	const classify = createClassify(loadBounceRules(session.settings()));
	const readings = events.map(event =>
		readEvent(eventBytes({provider, workspace: null, takes: optionalEvents, event}), classify),
	);
	session.show({provider, events: readings}, () => [
		`A post from ${provider} with ${readings.length} ${readings.length === 1 ? 'event' : 'events'}.`,
		...readings.flatMap(reading => [
			'',
			...reading.reports.flatMap(report =>
				reportRows(reading.kind, report).map(([field, value]) => `${field.padEnd(12)}${value}`),
			),
		]),
	]);
}

/** Reads the events of a post from a file. Throws if no provider posts this format. */
async function readPost(file: string, requested: ProviderName | undefined) {
	const bytes = await readInput(file);
	let body: unknown;
	try {
		body = JSON.parse(bytes.toString());
	} catch {
		throw new CliError('data', `${file} is not JSON`, 'use the request body as the provider sent it');
	}
	const provider = requested ?? guessProvider(body);
	const events = provider && providers[provider].events(body);
	if (!provider || !events) {
		const wrong = `${file} contains no events${requested ? ` of ${requested}` : ''}`;
		throw new CliError('data', wrong, 'specify the provider with --provider');
	}
	return {provider, events};
}

const smarthosts: Noun<Smarthost> = {
	none: 'no smarthosts; add one with mailctl smarthost add',
	json: ({id, workspace_id, provider, takes, secret, last_event_at, used_at, created_at}) => ({
		id,
		provider,
		workspace_id,
		takes,
		has_secret: secret !== null,
		last_event_at,
		created_at,
		last_message_at: used_at,
	}),
	fields: [
		{title: 'ID', name: 'id', cell: row => row.id, id: true},
		{title: 'PROVIDER', name: 'provider', cell: row => row.provider},
		{title: 'WORKSPACE', name: 'workspace', cell: row => row.workspace_id ?? 'all', cut: true},
		{
			title: 'LAST EVENT',
			name: 'last event',
			cell: row => (row.last_event_at ? `${shortTime(row.last_event_at)} UTC` : 'none yet'),
		},
		{name: 'last message', cell: row => (row.used_at ? `accepted ${shortTime(row.used_at)} UTC` : 'none yet')},
		{name: 'also accepts', cell: row => row.takes.join(', ') || '–'},
		{name: 'created', cell: row => `${shortTime(row.created_at)} UTC`},
	],
};

/** Shows the URL and the secret, which cannot be shown again. */
function showNew(session: Session, {row, token, secret}: NewSmarthost): void {
	const settings = session.settings();
	const base = linkBase(settings, liveDaemon(settings.dataDir)?.http);
	const url = token === null ? null : eventsUrl(base, row.provider, token);
	const {id, provider} = row;
	session.show({id, provider, url, secret}, () => [
		`${id}: ${provider}`,
		'',
		...(url === null
			? ['The secret was changed; the URL stays the same.']
			: setups[provider](url, secret).map(line => line.replace('ID', id))),
		'',
		'Store the URL and secret now: they are not shown again.',
	]);
}
