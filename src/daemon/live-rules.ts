import type {Logger} from 'pino';
import {type BounceRulesSettings, bounceRulesOf, loadBounceRules} from '../config/bounce-rules.ts';
import type {BounceRule} from '../mail/bounce.ts';

/** The rules by which refusals are judged now. */
export type LiveRules = {
	readonly current: () => readonly BounceRule[];
	/** Reads the files again. False: one is broken, which is logged; the rules that were read before still hold. */
	readonly renew: (settings: BounceRulesSettings) => boolean;
};

/** Throws ConfigError where the file is broken at the start. */
export function createLiveRules(settings: BounceRulesSettings, logger: Logger): LiveRules {
	let rules = loadBounceRules(settings);
	return {
		current: () => rules,
		renew(next) {
			const read = bounceRulesOf(next);
			if (read.ok) {
				rules = read.rules;
			} else {
				const text = 'The rules that were read before still hold.';
				logger.error({event: 'bounce_rules_refused', problems: read.problems}, text);
			}
			return read.ok;
		},
	};
}
