import type {WaitCode, WaitReason} from '../../src/mail/wait-reason.ts';

/** One reason of each code. */
export const reasonOf: {readonly [Code in WaitCode]: WaitReason & {readonly code: Code}} = {
	pace: {code: 'pace', connections: 5, copies: 20},
	rate: {code: 'rate', perMinute: 30, slowed: true, reply: '421 4.7.0 low reputation'},
	suspension: {code: 'suspension', reply: '421 4.7.0 go away.', probing: false},
	route: {code: 'route', reply: '535 5.7.8 no.', probing: true},
	operator: {code: 'operator'},
	warm_up: {code: 'warm_up', source: '192.0.2.1', group: 'big', perDay: 50},
	turn: {code: 'turn'},
	dns: {code: 'dns'},
};
