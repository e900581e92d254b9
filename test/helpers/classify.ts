import {createClassify} from '../../src/mail/classify-reply.ts';
import {loadBounceRules} from '../../src/config/bounce-rules.ts';

/** By the shipped rules. */
export const bounceRules = loadBounceRules({bounceRulesFile: null});
export const classify = createClassify(bounceRules);
