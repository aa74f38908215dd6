package main

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
)

// choice says which key comes next, as a number below the number of keys.
type choice interface{ next() int }

// newChoice knows uniform, zipfian and sequential.
func newChoice(name string, keys int, theta float64, seed uint64) choice {
	random := rand.New(rand.NewPCG(seed, 1))
	switch name {
	case "uniform":
		return &uniform{random, keys}
	case "zipfian":
		return newZipfian(random, keys, theta)
	case "sequential":
		return &sequential{keys: keys}
	case "shuffled":
		return &shuffled{sequential{keys: keys}, newScattering(keys, seed)}
	}
	stopOn(fmt.Errorf("%q is none of uniform, zipfian, sequential, shuffled", name), "choosing keys")
	return nil
}

type uniform struct {
	random *rand.Rand
	keys   int
}

func (u *uniform) next() int { return u.random.IntN(u.keys) }

// sequential goes through all keys and begins again.
type sequential struct{ keys, at int }

func (s *sequential) next() int {
	number := s.at
	s.at++
	if s.at == s.keys {
		s.at = 0
	}
	return number
}

// shuffled goes through all keys in an order without order, and begins again.
type shuffled struct {
	sequential
	scattering
}

func (s *shuffled) next() int { return s.of(s.sequential.next()) }

// scattering is a bijection of the numbers below keys: one of the numbers below the next power of two, walked until it
// falls among the keys.
type scattering struct {
	keys  uint64
	width int // bits of that power of two
	salt  uint64
}

func newScattering(keys int, seed uint64) scattering {
	return scattering{uint64(keys), max(2, bits.Len(uint(keys-1))), seed}
}

func (s scattering) of(number int) int {
	mask, half := uint64(1)<<s.width-1, s.width/2
	value := uint64(number)
	for {
		for round := range uint64(3) {
			value = (value*0x9E3779B97F4A7C15 + (s.salt+round)*0x632BE59BD9B4E019) & mask
			value ^= value >> half
		}
		if value < s.keys {
			return int(value)
		}
	}
}

// zipfian draws ranks by the method of Gray et al. ("Quickly Generating Billion-Record Synthetic Databases", 1994), the
// one that YCSB uses, and scatters them over the keys ("scrambled"), so that hot keys are not neighbours. Other than
// YCSB's hash, the scattering gives every rank a key of its own.
type zipfian struct {
	random                  *rand.Rand
	keys                    int
	theta, alpha, zeta, eta float64
	second                  float64 // a draw times zeta below this is rank 1
	places                  scattering
}

func newZipfian(random *rand.Rand, keys int, theta float64) *zipfian {
	sum := 0.0
	for rank := 1; rank <= keys; rank++ {
		sum += math.Pow(float64(rank), -theta)
	}
	second := 1 + math.Pow(0.5, theta)
	return &zipfian{
		random: random, keys: keys, theta: theta, alpha: 1 / (1 - theta), zeta: sum, second: second,
		eta:    (1 - math.Pow(2/float64(keys), 1-theta)) / (1 - second/sum),
		places: newScattering(keys, 0),
	}
}

func (z *zipfian) next() int {
	draw := z.random.Float64()
	rank := 0
	switch scaled := draw * z.zeta; {
	case scaled < 1:
	case scaled < z.second:
		rank = 1
	default:
		rank = min(z.keys-1, int(float64(z.keys)*math.Pow(z.eta*draw-z.eta+1, z.alpha)))
	}
	return z.places.of(rank)
}
