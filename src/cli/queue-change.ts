import type {Command} from 'commander';
import {type GivenUp, giveUp} from '../outcome/give-up.ts';
import {holdCopies, makeDue, releaseHeld} from '../store/queue-change.ts';
import {label} from './options.ts';
import {verb, yesOption} from './program.ts';
import {grouped} from './progress.ts';
import {type Change, runChange} from './queue-steps.ts';
import {chosenTargets, type TargetOptions, targetOptions} from './queue-targets.ts';
import {action, type Session} from './session.ts';

type Options = TargetOptions & {readonly reason?: string; readonly yes?: boolean};

const hold: Change = {
	done: 'held',
	says: copies => `held ${copies}`,
	passesOver: false,
	apply: holdCopies,
};

const release: Change = {
	done: 'released',
	says: copies => `released ${copies}`,
	passesOver: true,
	apply: releaseHeld,
};

const flush: Change = {
	done: 'flushed',
	says: copies => `${copies} due now`,
	passesOver: true,
	apply: makeDue,
};

const end = (done: string, how: GivenUp): Change => ({
	done,
	says: copies => `${done} ${copies}`,
	passesOver: false,
	apply: (trx, step, outbox) => giveUp(trx, step, how, outbox),
});

const failed = 'given up by the operator';

/** The verbs that change copies of the queue. */
export function changeVerbs(queue: Command): void {
	reasonOption(
		targetVerb(queue, 'hold', 'Keep mail in the queue, untried, until it is released', '--destination example.com'),
	).action(changing(async (session, ids, options) => await change(session, hold, ids, options)));

	targetVerb(queue, 'release', 'Let held mail go; each copy is tried when it would have been', 'msg_06f…').action(
		changing(async (session, ids, options) => await change(session, release, ids, options)),
	);

	targetVerb(queue, 'flush', 'Try mail now that waits for a later try; without a filter all', '--older-than 4h').action(
		changing(async (session, ids, options) => {
			await runChange(session, flush, await chosenTargets(session, ids, options, true));
		}),
	);

	yesOption(targetVerb(queue, 'drop', 'End mail as errored, without telling webhooks', 'rcp_06f… --yes')).action(
		changing(async (session, ids, options) => {
			const targets = await chosenTargets(session, ids, options);
			const copies = targets.copies.length === 1 ? 'one copy' : `${grouped(targets.copies.length)} copies`;
			if (targets.copies.length > 0) {
				await session.confirm(`Drop ${copies}? They end as errored and are never sent.`, options.yes);
			}
			await runChange(session, end('dropped', {kind: 'drop'}), targets);
		}),
	);

	reasonOption(
		targetVerb(queue, 'fail', 'End mail as bounced, as if its time were over; webhooks are told', '--older-than 2d'),
	).action(
		changing(async (session, ids, options) => {
			await change(session, end('failed', {kind: 'fail', reason: options.reason ?? failed}), ids, options);
		}),
	);
}

async function change(session: Session, change: Change, ids: readonly string[], options: Options): Promise<void> {
	const {reason} = options;
	await runChange(session, change, await chosenTargets(session, ids, options), reason === undefined ? {} : {reason});
}

function changing(run: (session: Session, ids: readonly string[], options: Options) => Promise<void>) {
	return action<Options, [readonly string[]]>((session, options, ids) => run(session, ids, options));
}

function targetVerb(queue: Command, name: string, about: string, sample: string): Command {
	return targetOptions(verb(queue, `${name} [id...]`, about, `mailctl queue ${name} ${sample}`));
}

function reasonOption(command: Command): Command {
	return command.option('--reason <text>', 'why: kept, and shown by queue why', label('--reason'));
}
