import {CliError} from '../../cli/fault.ts';
import {readSecret} from '../../cli/files.ts';
import {email, oneOf} from '../../cli/options.ts';
import {type CliCommand, version} from '../../cli/program.ts';
import type {Session} from '../../cli/session.ts';
import {type Noun, shortTime} from '../../cli/terminal-text.ts';
import {sendTest} from '../../daemon/alerts.ts';
import {type AlertKind, type AlertWay, alertKindNames, alertKinds} from '../../mail/alert.ts';
import {alertView, storedTime} from '../views.ts';
import {AddressGuard, toGuard} from '../webhooks/address-guard.ts';
import {
	addAlert,
	addVouchedAlert,
	checkTarget,
	muteAlert,
	removeAlert,
	type ShownAlert,
	testAlert,
	verifyAlert,
	withStatuses,
} from './rules.ts';
import {type Alert, type KnownCondition, listAlerts, listConditions} from './store.ts';

type AddOptions = {
	mail?: string;
	webhook?: string;
	slack?: string;
	on?: AlertKind[];
	from?: string;
	verified?: boolean;
};

const kinds = (text: string, previous: readonly AlertKind[] = []) => [
	...previous,
	...text.split(',').map(oneOf('--on', alertKindNames)),
];

export function alertCommands(alert: CliCommand): void {
	alert
		.verb('add', 'Add an alert: a message when a problem starts and when it ends')
		.sample('mailctl alert add --mail ops@shop.example')
		.option('--mail <address>', 'send email, bypassing the queue (MAILCTL_ALERT_SMTP_URL)', email('--mail'))
		.option('--webhook <url>', 'send a signed POST; - reads the URL from standard input')
		.option('--slack <url>', 'post to a Slack incoming webhook; - reads the URL from standard input')
		.option('--on <kinds>', `only these types: ${alertKindNames.join(', ')}`, kinds)
		.option('--from <address>', 'sender of its messages; default: mailctl at MAILCTL_HOSTNAME', email('--from'))
		.option('--verified', 'treat the address of --mail as confirmed')
		.does<AddOptions>(async (session, {on, from, verified = false, ...ways}) => {
			const targets = Object.entries(ways) as Array<[AlertWay, string]>;
			const [first] = targets;
			if (first === undefined || targets.length > 1) {
				throw new CliError(
					'usage',
					'an alert has exactly one target',
					'give one of --mail, --webhook, --slack',
				);
			}
			const way = first[0];
			const target = await readSecret(first[1]);
			const guard = new AddressGuard(toGuard(session.settings()));
			checkTarget(url => guard.urlProblem(url), {way, target});
			const input = {way, target, ...(on && {on}), ...(from !== undefined && {from})};
			const {row, secret} = await session.performAnywhere(verified ? addVouchedAlert : addAlert, input);
			session.show({...(alerts.json(row) as object), ...(secret !== null && {secret})}, () => [
				`${row.id}: ${row.way} ${row.target}`,
				...(secret === null ? [] : [`Posts are signed with ${secret}, which is not shown again.`]),
				row.status === 'unconfirmed'
					? `${row.target} receives a link to confirm the address; to skip that: mailctl alert verify ${row.id}`
					: `Try it: mailctl alert test ${row.id}`,
			]);
		});

	alert
		.verb('list', 'List alerts, newest first, and open incidents')
		.sample('mailctl alert list')
		.does(async session => {
			const workspaceId = (await session.chosenWorkspace())?.id ?? null;
			const reader = await session.reader();
			session.list(alerts, await withStatuses(reader, await listAlerts(reader, workspaceId)));
			const wrong = (await listConditions(reader, workspaceId)).filter(isWrong);
			if (!session.json && wrong.length > 0) {
				session.terminal.print(['', 'Open incidents:']);
				session.list(conditions, wrong);
			}
		});

	alert
		.verb('test <id>', 'Send a test message now')
		.sample('mailctl alert test alr_06f…')
		.does<object, [string]>(async (session, _options, text) => {
			const one = await findAlert(session, text);
			await session.performAnywhere(testAlert, {id: one.id});
			const parts = {
				settings: session.settings(),
				version: version(),
				vault: await session.vault(),
				...session.tools,
				reader: await session.reader(),
			};
			const error = await sendTest(parts, one);
			session.show({id: one.id, sent: error === null, error}, () =>
				error === null ? [`sent to ${one.target}`] : [],
			);
			if (error !== null) {
				const fix = one.way === 'mail' ? 'see MAILCTL_ALERT_SMTP_URL' : 'check the URL and its response';
				throw new CliError('unavailable', `the message was not sent: ${error}`, fix);
			}
		});

	alert
		.verb('verify <id>', 'Mark the address of an alert as confirmed')
		.sample('mailctl alert verify alr_06f…')
		.does<object, [string]>(async (session, _options, text) => {
			const {id} = await findAlert(session, text);
			session.one(alerts, await session.performAnywhere(verifyAlert, {id}));
		});

	alert
		.verb('mute <id>', 'Mute an alert for a while')
		.sample('mailctl alert mute alr_06f… --for 2h')
		.requiredOption('--for <duration>', 'how long, at most 30d; 0 unmutes it')
		.does<{for: string}, [string]>(async (session, {for: span}, text) => {
			const {id} = await findAlert(session, text);
			session.one(alerts, await session.performAnywhere(muteAlert, {id, for: span}));
		});

	alert
		.verb('remove <id>', 'Remove an alert')
		.sample('mailctl alert remove alr_06f… --yes')
		.yesOption()
		.does<{yes?: boolean}, [string]>(async (session, {yes}, text) => {
			const {id, target} = await findAlert(session, text);
			await session.confirm(`Remove ${id}? ${target} will receive no more alerts.`, yes);
			await session.performAnywhere(removeAlert, {id});
			session.show({id, removed: true}, () => [`removed ${id} (${target})`]);
		});
}

/** Finds an alert by its id, a prefix of it, or its target. */
async function findAlert(session: Session, text: string): Promise<Alert> {
	const workspaceId = (await session.chosenWorkspace())?.id ?? null;
	const all = await listAlerts(await session.reader(), workspaceId);
	const matching = all.filter(({id, target}) => target === text || (text !== '' && id.startsWith(text)));
	const [only] = matching;
	if (only === undefined || matching.length > 1) {
		const wrong = only === undefined ? `there is no alert ${text}` : `${text} is ambiguous`;
		throw new CliError('data', wrong, 'see mailctl alert list');
	}
	return only;
}

const isWrong = ({announced_at: at, ended_at: ended}: KnownCondition) => at !== null && ended === null;
const lastSent = ({error, sent_at: at}: Alert) => (error ? 'failed' : at ? minute(at) : '–');
const minute = (time: string) => `${shortTime(time)} UTC`;

const alerts: Noun<ShownAlert> = {
	none: 'no alerts; create one with mailctl alert add',
	json: row => ({...alertView(row, storedTime), workspace_id: row.workspace_id}),
	fields: [
		{title: 'ID', name: 'id', cell: row => row.id, id: true},
		{title: 'WAY', name: 'way', cell: row => row.way},
		{title: 'TARGET', name: 'target', cell: row => row.target, cut: true},
		{
			title: 'LAST SENT',
			name: 'last sent',
			cell: row => (row.status === 'active' ? lastSent(row) : row.status),
		},
		{name: 'status', cell: row => row.status},
		{name: 'about', cell: row => row.kinds?.join(', ') ?? 'everything'},
		{name: 'workspace', cell: row => row.workspace_id ?? 'all'},
		{name: 'muted until', cell: row => (row.muted_until ? minute(row.muted_until) : undefined)},
		{name: 'last error', cell: row => row.error ?? undefined},
		{name: 'created', cell: row => minute(row.created_at)},
	],
};

const conditions: Noun<KnownCondition> = {
	none: '',
	json: row => row,
	fields: [
		{title: 'SINCE', cell: row => minute(row.began_at)},
		{title: 'KIND', cell: row => alertKinds[row.kind].title},
		{title: 'WHAT', cell: row => row.detail, cut: true},
	],
};
