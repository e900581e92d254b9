import {defaultReputationLimits, type ReputationLevel, type ReputationLimits} from '../mail/reputation.ts';
import {allowed, type Parser, value} from './parsed.ts';

const use = 'use warn=5%/0.1%,pause=10%/0.5% (bounces/complaints), either or both, none of warn above pause, or off';

/** `warn=5%/0.1%,pause=10%/0.5%`: any subset; `off` is null. */
export const reputationLimits: Parser<ReputationLimits | null> = text => {
	if (text === 'off') {
		return value(null);
	}

	const limits: Record<keyof ReputationLimits, ReputationLevel> = {...defaultReputationLimits};
	for (const part of text.split(',')) {
		const [, name, bounces, complaints] = /^(warn|pause)=([\d.]+)%\/([\d.]+)%$/.exec(part.trim()) ?? [];
		const level = {bounces: share(bounces), complaints: share(complaints)};
		if (name === undefined || Number.isNaN(level.bounces + level.complaints)) {
			return allowed(use);
		}
		limits[name as keyof ReputationLimits] = level;
	}

	const {warn, pause} = limits;
	return warn.bounces <= pause.bounces && warn.complaints <= pause.complaints ? value(limits) : allowed(use);
};

/** What tells this sender from others in Feedback-ID: Gmail takes 5 to 15 characters. */
export const senderId: Parser<string> = text =>
	/^[0-9A-Za-z]{5,15}$/.test(text) ? value(text) : allowed('use 5 to 15 letters and digits');

/** More than nothing, at most all, with up to three decimals. */
function share(percent = ''): number {
	const number = /^\d{1,3}(\.\d{1,3})?$/.test(percent) ? Number(percent) : Number.NaN;
	return number > 0 && number <= 100 ? number / 100 : Number.NaN;
}
