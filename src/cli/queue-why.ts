import type {Command} from 'commander';
import {type Why, whyWaiting} from '../admin/why.ts';
import type {WhyContext} from '../admin/why-reasons.ts';
import {claimMarginMs} from '../mail/retry.ts';
import {storeTime} from '../mail/time.ts';
import {findAudit} from '../store/audit.ts';
import {type CopyFacts, readCopyFacts} from '../store/queue/queue-facts.ts';
import {readDaemons} from './daemons.ts';
import {count} from './options.ts';
import {verb} from './program.ts';
import {chosenTargets, type TargetOptions, targetOptions} from './queue-targets.ts';
import {action, type Session} from './session.ts';
import {duration, grouped, printable, shortTime, wrapped} from './text.ts';

type Options = TargetOptions & {readonly limit: number};

export function whyVerb(queue: Command): void {
	targetOptions(
		verb(
			queue,
			'why [id...]',
			'What mail waits for, until when, and what would change it',
			'mailctl queue why msg_06f…',
		),
	)
		.option('--limit <n>', 'at most so many copies', count('--limit', 1, 10_000), 100)
		.action(action<Options, [readonly string[]]>(why));
}

async function why(session: Session, options: Options, ids: readonly string[]): Promise<void> {
	const targets = await chosenTargets(session, ids, options);
	const all = [...targets.copies, ...targets.gone];
	const facts = await readCopyFacts(await session.reader(), all.slice(0, options.limit));
	const context = await contextOf(session, facts);
	const answers = facts.map(copy => whyWaiting(copy, context));
	const left = all.length - answers.length;
	session.show(answers, () => [
		...answers.flatMap((answer, index) => [...(index > 0 ? [''] : []), ...described(session, answer, context.now)]),
		...(answers.length === 0 ? ['nothing in the queue matches'] : []),
		...(left > 0 ? ['', `and ${grouped(left)} more: raise --limit to see them`] : []),
	]);
}

async function contextOf(session: Session, facts: readonly CopyFacts[]): Promise<WhyContext> {
	const {running, delivering, lives} = await readDaemons(session);
	const {attemptDeadline, queueLifetime} = session.settings();
	const now = session.tools.clock.now();
	const holds = await readHolds(session, facts);
	return {
		now,
		running,
		delivering,
		lives,
		attemptDeadlineMs: attemptDeadline,
		claimedAt({next_attempt_at: next}) {
			// A claim moves the next try past the deadline; where the daemon has other settings it cannot be told.
			const at = Date.parse(next ?? '') - attemptDeadline - claimMarginMs;
			return at <= now && at > now - attemptDeadline - claimMarginMs ? storeTime(at) : null;
		},
		givesUpAt: ({accepted_at: accepted, queue_lifetime_s: own}) =>
			storeTime(Date.parse(accepted) + (own === null ? queueLifetime : own * 1000)),
		heldBy: ({id}) => holds.get(id) ?? {user: null, reason: null},
	};
}

async function readHolds(session: Session, facts: readonly CopyFacts[]) {
	const reader = await session.reader();
	const known = new Map<string, {user: string | null; reason: string | null}>();
	for (const {id, workspace_id: workspaceId, held_at: at} of facts) {
		const act = at === null ? undefined : await findAudit(reader, {workspaceId, action: 'queue.held', at});
		known.set(id, {user: act?.actor.replace(/^cli:/, '') ?? null, reason: textOrNull(act?.detail.reason)});
	}
	return known;
}

function described({terminal}: Session, answer: Why, now: number): string[] {
	const lines = (text: string, indent: string) => wrapped(printable(text), terminal.width, indent);
	const reason = ({detail, until, mend}: Pick<Why, 'detail' | 'until' | 'mend'>) => [
		...lines(
			until === null || until < storeTime(now) ? detail : `${detail} (in ${duration(Date.parse(until) - now)})`,
			'  ',
		),
		...(mend === null ? [] : lines(`→ ${mend}`, '    ')),
	];
	return [
		terminal.bold(`${printable(answer.address)}  ${answer.id}`),
		...reason(answer),
		...answer.also.flatMap(each => reason({...each, detail: `Besides: ${each.detail}`})),
		...(answer.gives_up_at === null
			? []
			: lines(`Its time in the queue ends at ${shortTime(answer.gives_up_at)} UTC.`, '  ')),
	];
}

function textOrNull(value: unknown): string | null {
	return typeof value === 'string' ? value : null;
}
